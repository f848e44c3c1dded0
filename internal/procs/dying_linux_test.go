package procs_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stint-run/stint/internal/procs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestDying(t *testing.T) {
	t.Parallel()
	require.False(t, procs.Dying(os.Getpid()))
	cmd := exec.Command("sleep", "600")
	require.NoError(t, cmd.Start())
	pid := cmd.Process.Pid
	require.False(t, procs.Dying(pid))
	require.NoError(t, cmd.Process.Kill())
	require.NoError(t, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	require.True(t, procs.Dying(pid), "it has ended, and is not collected")
	require.Error(t, cmd.Wait())
	require.False(t, procs.Dying(pid), "there is no such process")
}
