package jobtest

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// WriteProgram writes a script that can be run. Meanwhile no other test starts a process: until that is another program
// it would have the file open, too, and the system does not run a file that is open for writing ("text file busy").
func WriteProgram(t testing.TB, path, content string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o755))
}
