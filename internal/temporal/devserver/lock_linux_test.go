package devserver

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/base/procs"
)

// A process that is killed while it starts another one leaves its lock to that one until it has begun to run its
// program. Whoever comes waits for that, too.
func TestHeldForADeadProcess(t *testing.T) {
	t.Parallel()
	table, _, known := strings.Cut(procs.Own(), ":")
	require.True(t, known)
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	dir := t.TempDir()
	l, err := lockDir(dir, "default", "")
	require.NoError(t, err)
	l.info.PID = dead.Process.Pid
	l.info.Process = fmt.Sprintf("%s:%d:1", table, l.info.PID)
	require.NoError(t, l.announce("127.0.0.1:1", ""))
	time.AfterFunc(3*lockPatience, func() { _ = l.file.Close() })
	l, err = lockDir(dir, "default", "")
	require.NoError(t, err)
	l.release()
}
