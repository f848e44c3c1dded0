package procs

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// All ways to wait return when the child has ended, not before, and leave it to be collected. That holds for pollExit
// alone where the kernel can poll processes, as from 5.10 on.
func TestAwaitExit(t *testing.T) {
	t.Parallel()
	type way struct {
		name  string
		await func(pid int)
	}
	ways := []way{{"either", AwaitExit}, {"block", blockUntilExit}}
	if fd, err := unix.PidfdOpen(os.Getpid(), unix.PIDFD_NONBLOCK); err == nil {
		require.NoError(t, unix.Close(fd))
		ways = append(ways, way{"poll", pollExit})
	}
	for _, way := range ways {
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
