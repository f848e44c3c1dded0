package child

import (
	"log/slog"
	"os/exec"
	"testing"

	"github.com/stint-run/stint/internal/base/procs"
	"github.com/stretchr/testify/require"
)

// What has begun a session of its own stays when its child ends, by itself or killed; what is in the child's session
// does not.
func TestDaemonStarter(t *testing.T) {
	t.Parallel()
	adopting, err := NewStarter(slog.New(slog.DiscardHandler)) // this process adopts daemons, too
	require.NoError(t, err)
	t.Cleanup(adopting.Close)
	const script = `
setsid sh -c 'echo $$ >> $PIDS; exec sleep 1000' &
while [ ! -s $PIDS ]; do sleep 0.01; done
timeout 1000 sh -c 'echo $$ >> $PIDS; sleep 1000' & sleep 1000 & echo $! >> $PIDS
while [ $(wc -l < $PIDS) -lt 3 ]; do sleep 0.01; done
`
	for name, killed := range map[string]bool{"ends by itself": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			children, err := NewDaemonStarter(slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			defer children.Close()
			cmd := exec.Command("sh", "-c", script)
			if killed {
				cmd = exec.Command("sh", "-c", script+"sleep 1000")
			}
			p, pids := familyOf(t, children, 3, cmd)
			orphanage.tend()
			if killed {
				p.Kill()
			}
			_ = p.Wait() // however it ended
			orphanage.tend()
			children.Close()
			requireDead(t, pids[1:])
			daemon, there := procs.Read(pids[0])
			require.True(t, there && !daemon.Zombie)
			procs.Kill(daemon)
		})
	}
}

// A daemon may begin its session only when it has lost its parent.
func TestDaemonStarter_DaemonsHaveTime(t *testing.T) {
	t.Parallel()
	children, err := NewDaemonStarter(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer children.Close()
	p, pids := familyOf(t, children, 1, exec.Command("sh", "-c", `
sh -c 'echo $$ >> $PIDS
	while read -r _ _ _ parent _ < /proc/$$/stat && [ $parent = $0 ]; do :; done
	exec setsid sleep 1000' $$ &
while [ ! -s $PIDS ]; do sleep 0.01; done`))
	require.NoError(t, p.Wait())
	daemon, there := procs.Read(pids[0])
	require.True(t, there && !daemon.Zombie)
	require.Equal(t, daemon.PID, daemon.Session)
	procs.Kill(daemon)
}

// requireDead requires that the processes have ended. Whoever has adopted them may not have collected them.
func requireDead(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		p, there := procs.Read(pid)
		require.True(t, !there || p.Zombie, "%+v", p)
	}
}
