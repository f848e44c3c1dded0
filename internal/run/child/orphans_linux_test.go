package child

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/procs"
	"github.com/stretchr/testify/require"
)

// waitLimit bounds every wait in these tests. It is long because it only matters when something is
// broken.
const waitLimit = time.Minute

// family starts a shell script as a child, which notes the numbers of the processes that it starts, a
// line each, in $PIDS.
func family(t *testing.T, lines int, script string) (*Process, []int) {
	t.Helper()
	children, err := NewStarter(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(children.Close)
	return familyOf(t, children, lines, exec.Command("sh", "-c", script))
}

// familyOf starts the command as a child, which notes numbers in the same way.
func familyOf(t *testing.T, children *Starter, lines int, cmd *exec.Cmd) (*Process, []int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pids")
	cmd.Env = append(cmd.Environ(), "PIDS="+file)
	cmd.SysProcAttr = GroupAttributes()
	p, err := children.Start(cmd, nil)
	require.NoError(t, err)
	var pids []int
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(file)
		pids = pids[:0]
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			require.NoError(t, err)
			pids = append(pids, pid)
		}
		return len(pids) == lines && strings.HasSuffix(string(text), "\n")
	}, waitLimit, time.Millisecond)
	for _, pid := range pids {
		if left, there := procs.Read(pid); there {
			t.Cleanup(func() { procs.Kill(left) }) // a test that has failed leaves it
		}
	}
	return p, pids
}

// requireGone requires that nothing is left of the processes, not even a zombie.
func requireGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		p, there := procs.Read(pid)
		require.False(t, there, "%+v", p)
	}
}

// T9, K12: whatever a child has started ends with it, also what has left its process group and its session,
// and is collected.
func TestProcess_WhatLeavesTheGroupEndsToo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines  int
		script string
	}{
		"in the group":             {1, `sleep 1000 & echo $! >> $PIDS`},
		"its own group":            {2, `timeout 1000 sh -c 'echo $$ >> $PIDS; sleep 1000' & echo $! >> $PIDS`},
		"its own session":          {1, `setsid sh -c 'echo $$ >> $PIDS; exec sleep 1000' &`},
		"a daemon":                 {1, `setsid sh -c 'sleep 1000 & echo $! >> $PIDS' &`},
		"a daemon's daemon":        {2, `setsid sh -c 'setsid sh -c "sleep 1000 & echo \$! >> $PIDS; exec sleep 1000" & sleep 1000 & echo $! >> $PIDS' &`},
		"another environment":      {1, `P=$PIDS; env -i setsid sh -c "echo \$\$ >> $P; exec sleep 1000" & sleep 1000`},
		"no environment, no group": {1, `env -i timeout 1000 sh -c "echo \$\$ >> $PIDS; sleep 1000" &`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, killed := range []bool{false, true} {
				if !killed && name == "another environment" {
					continue // its parent waits
				}
				script := c.script + "\n"
				if killed {
					script += "sleep 1000\n"
				} else {
					script += "while [ $(wc -l < $PIDS) -lt " + strconv.Itoa(c.lines) + " ]; do sleep 0.01; done 2> /dev/null\n"
				}
				p, pids := family(t, c.lines, script)
				if killed {
					p.Kill()
				}
				_ = p.Wait() // however it ended
				requireGone(t, pids)
			}
		})
	}
}

// K12: what has ended is collected while its child continues: no zombie stays.
func TestProcess_OrphansAreCollectedMeanwhile(t *testing.T) {
	t.Parallel()
	p, pids := family(t, 3, `
(sh -c 'echo $$ >> $PIDS' &)
(timeout 1000 sh -c 'echo $$ >> $PIDS' &)
(setsid sh -c 'echo $$ >> $PIDS; sleep 2' &)
exec sleep 1000`)
	require.Eventually(t, func() bool {
		for _, pid := range pids {
			if _, there := procs.Read(pid); there {
				return false
			}
		}
		return true
	}, waitLimit, 10*time.Millisecond)
	_, there := procs.Read(p.Cmd.Process.Pid)
	require.True(t, there)
	p.Kill()
	require.Error(t, p.Wait())
}

// What belongs to one child is left alone when another one ends.
func TestProcess_OthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	kept, pids := family(t, 1, `setsid sh -c 'echo $$ >> $PIDS; exec sleep 1000' & sleep 1000`)
	other, gone := family(t, 1, `setsid sh -c 'echo $$ >> $PIDS; exec sleep 1000' & sleep 1000`)
	other.Kill()
	_ = other.Wait() // killed
	other.of.Close()
	requireGone(t, gone)
	p, there := procs.Read(pids[0])
	require.True(t, there && !p.Zombie)
	kept.Kill()
	_ = kept.Wait() // killed
	requireGone(t, pids)
}

// A guard looks for what is left unless this process has no child at all: an adopted one may belong to a child that has
// ended.
func TestOrphans_Deserted(t *testing.T) { // not parallel: other tests have children
	children, err := NewStarter(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer children.Close()
	for _, pid := range procs.Children(os.Getpid()) { // what other tests have left
		if p, there := procs.Read(pid); there && p.Zombie {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // it has ended
		}
	}
	deserted := func() bool { return orphanage.deserted(children.guard.PID()) }
	require.True(t, deserted())

	cmd := exec.Command("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!")
	text, err := cmd.Output()
	require.NoError(t, err)
	require.False(t, deserted(), "it has adopted one")
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	adopted, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.NoError(t, adopted.Kill())
	_, err = adopted.Wait()
	require.NoError(t, err)
	require.True(t, deserted())

	cmd = exec.Command("sleep", "1000")
	cmd.SysProcAttr = GroupAttributes()
	p, err := children.Start(cmd, nil)
	require.NoError(t, err)
	require.False(t, deserted())
	p.Kill()
	require.Error(t, p.Wait())
	require.True(t, deserted())
}

// A child of another part of the program is neither killed nor collected.
func TestOrphans_SpareOtherChildren(t *testing.T) {
	t.Parallel()
	children, err := NewStarter(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer children.Close()
	cmd := exec.Command("sh", "-c", "exit 7")
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		p, there := procs.Read(cmd.Process.Pid)
		return there && p.Zombie
	}, waitLimit, time.Millisecond)
	for range 2 * strangerRounds {
		orphanage.tend()
	}
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 7, exit.ExitCode())
}
