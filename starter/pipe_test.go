package starter

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// brokenPipe is a standard output whose reader has ended.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
}

// If who reads the results ends, the command ends as one that was stopped, and says how to go on: the same command
// prints them.
func TestD41_TheReaderOfTheResultsEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in.txt"), []byte("a\nb\n"), 0o600))
	run := func(p Program) (code int, messages string) {
		var stderr bytes.Buffer
		p.Stderr, p.Stdin, p.Dir, p.Env = &stderr, strings.NewReader(""), dir, os.Environ()
		code = Execute(context.Background(), p, []string{"run", "-q", "--exec", "cat", "in.txt", "--ui-port", "0"})
		return code, stderr.String()
	}
	outlives := false
	code, messages := run(Program{Stdout: brokenPipe{}, OutliveReaders: func() { outlives = true }})
	require.Equal(t, ExitStopped, code, messages)
	require.True(t, outlives)
	require.Contains(t, messages, "printing the results: write /dev/stdout: broken pipe; they are kept, and the same command prints them")
	var out bytes.Buffer
	code, messages = run(Program{Stdout: &out})
	require.Equal(t, ExitOK, code, messages)
	require.Equal(t, "a\nb\n", out.String())
}
