package procs

import (
	"errors"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Both ways to wait return when the child has ended, not before, and leave it to be collected.
func TestAwaitExit(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name  string
		await func(pid int)
	}{
		{"poll", AwaitExit},
		{"block", blockUntilExit},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("sh", "-c", "read line; exit 7")
			input, err := cmd.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				way.await(cmd.Process.Pid)
			}()
			select {
			case <-ended:
				t.Error("it has returned before the end")
			case <-time.After(10 * time.Millisecond):
			}
			_, err = io.WriteString(input, "end\n")
			require.NoError(t, err)
			<-ended
			p, there := Read(cmd.Process.Pid)
			require.True(t, there)
			require.True(t, p.Zombie)
			way.await(cmd.Process.Pid) // at once
			var exit *exec.ExitError
			require.True(t, errors.As(cmd.Wait(), &exit))
			require.Equal(t, 7, exit.ExitCode())
		})
	}
}

// Nothing is waited for if there is no such child: who collects it gets the error.
func TestAwaitExit_NoChild(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("true")
	require.NoError(t, cmd.Run())
	AwaitExit(cmd.Process.Pid)
	blockUntilExit(cmd.Process.Pid)
}
