package procs

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestDying(t *testing.T) {
	t.Parallel()
	require.False(t, Dying(os.Getpid()))
	cmd := exec.Command("sleep", "600")
	require.NoError(t, cmd.Start())
	pid := cmd.Process.Pid
	require.False(t, Dying(pid))
	require.NoError(t, cmd.Process.Kill())
	require.NoError(t, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	require.True(t, Dying(pid), "it has ended, and is not collected")
	require.Error(t, cmd.Wait())
	require.False(t, Dying(pid), "there is no such process")
}

func TestPendingKill(t *testing.T) {
	t.Parallel()
	const status = "Name:\tstint\nState:\tR (running)\nSigPnd:\t%s\nShdPnd:\t%s\nSigBlk:\t0000000000000100\n"
	const none, kill, others = "0000000000000000", "0000000000000100", "fffffffffffffeff"
	for pending, want := range map[[2]string]bool{{none, none}: false, {kill, none}: true, {none, kill}: true, {others, others}: false} {
		require.Equal(t, want, pendingKill(fmt.Appendf(nil, status, pending[0], pending[1])), pending)
	}
}
