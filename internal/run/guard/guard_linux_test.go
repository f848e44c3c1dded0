package guard

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asWorker, in the environment, makes the test binary a worker that starts a child, sends its
// guard of it, says so, and waits to be killed.
const asWorker = "STINT_TEST_GUARD_WORKER"

func TestMain(m *testing.M) {
	Main()
	if os.Getenv(asWorker) != "" {
		work()
		return
	}
	goleak.VerifyTestMain(m)
}

func work() {
	g, err := Start()
	if err != nil {
		panic(err)
	}
	child := exec.Command("sh", "-c", "sleep 1000 & sleep 1000 & wait")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		panic(err)
	}
	if err := g.Add(child.Process.Pid); err != nil {
		panic(err)
	}
	os.Stdout.WriteString(strconv.Itoa(child.Process.Pid) + "\n")
	_ = child.Wait()
}

// patience bounds every wait in these tests. It is long because it only matters when something is
// broken.
const patience = 3 * time.Minute

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "waited in vain for "+what)
	}
}

// setup starts a guard that is closed with the test.
func setup(t *testing.T) *Guard {
	t.Helper()
	g, err := Start()
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g
}

// group starts a process group of two, which is dead when the test ends.
func group(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 1000 & sleep 1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed
	}()
	t.Cleanup(func() {
		killGroup(cmd.Process.Pid)
		<-ended
	})
	return cmd.Process.Pid
}

// lives reports whether a process of the group runs.
func lives(group int) bool {
	found, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, entry := range found {
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		fields := strings.Fields(string(rest)) // state, parent, group, …
		if len(fields) > 2 && fields[0] != "Z" && fields[2] == strconv.Itoa(group) {
			return true
		}
	}
	return false
}

func TestGuard_KillsGroupsAtItsEnd(t *testing.T) {
	t.Parallel()
	g := setup(t)
	kept, taken := group(t), group(t)
	require.NoError(t, g.Add(kept))
	require.NoError(t, g.Add(taken))
	g.Remove(taken)
	g.Close()
	eventually(t, "the end of the group", func() bool { return !lives(kept) })
	require.True(t, lives(taken), "a group that was taken back is left alone")
	g.Close()
	require.NoError(t, g.Add(taken), "a closed guard ignores it")
	require.True(t, lives(taken))
}

// Start returns the guard that was prepared; if nobody calls it, end ends the guard.
func TestPrepare(t *testing.T) { // not beside tests that start guards
	end := Prepare()
	waiting := prepared.guard
	Prepare()() // there is one
	require.Same(t, waiting, prepared.guard)
	pid := waiting.PID()
	g := setup(t)
	require.Equal(t, pid, g.PID())
	require.NotEqual(t, pid, setup(t).PID(), "one Start gets it")
	end()
	kept := group(t)
	require.NoError(t, g.Add(kept), "it is in use")
	g.Close()
	eventually(t, "the end of the group", func() bool { return !lives(kept) })

	end = Prepare()
	pid = prepared.guard.PID()
	end()
	require.Nil(t, prepared.guard)
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	end()
}

// TestGuard_OutlivesItsWorker (W8): a worker that is killed takes its children's children with it.
func TestGuard_OutlivesItsWorker(t *testing.T) {
	t.Parallel()
	worker := exec.Command("/proc/self/exe")
	worker.Env = append(os.Environ(), asWorker+"=1")
	worker.Stderr = os.Stderr
	worker.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())
	line := make([]byte, 32)
	n, err := out.Read(line)
	require.NoError(t, err)
	group, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	require.NoError(t, err)
	t.Cleanup(func() { killGroup(group) })
	require.True(t, lives(group))
	killGroup(worker.Process.Pid)
	require.Error(t, worker.Wait())
	eventually(t, "the end of the group", func() bool { return !lives(group) })
}

// TestGuard_IsReplaced: one that has died is started again and gets everything.
func TestGuard_IsReplaced(t *testing.T) {
	t.Parallel()
	g := setup(t)
	first, second := group(t), group(t)
	require.NoError(t, g.Add(first))
	old := g.PID()
	require.NoError(t, syscall.Kill(old, syscall.SIGKILL))
	require.NoError(t, g.Add(second))
	eventually(t, "another guard", func() bool { return g.PID() != old })
	require.True(t, lives(first))
	g.Close()
	eventually(t, "the end of the first group", func() bool { return !lives(first) })
	eventually(t, "the end of the second group", func() bool { return !lives(second) })
}

// A guard that is killed is replaced at once, though nothing starts or ends meanwhile: a worker that is
// killed soon after leaves nothing behind.
func TestGuard_IsReplacedUnasked(t *testing.T) {
	t.Parallel()
	g := setup(t)
	kept := group(t)
	require.NoError(t, g.Add(kept))
	for range 3 {
		old := g.PID()
		require.NoError(t, syscall.Kill(old, syscall.SIGKILL))
		eventually(t, "another guard", func() bool { return g.PID() != old })
	}
	require.True(t, lives(kept))
	g.Close()
	eventually(t, "the end of the group", func() bool { return !lives(kept) })
}

// K12, K9: what has left its group and its session ends with the worker, too, known by its mark.
func TestGuard_KillsWhatIsMarked(t *testing.T) {
	t.Parallel()
	g := setup(t)
	start := func(mark string) int {
		cmd := exec.Command("sleep", "1000")
		cmd.Env = append(os.Environ(), markName+"="+mark)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		require.NoError(t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait() // killed
		}()
		t.Cleanup(func() {
			killGroup(cmd.Process.Pid)
			<-ended
		})
		return cmd.Process.Pid
	}
	ours, others := start("guard-test-mark.1"), start("guard-test-other.1")
	require.NoError(t, g.Mark("guard-test-mark."))
	g.Close()
	eventually(t, "the end of the marked process", func() bool { return !lives(ours) })
	require.True(t, lives(others))
}

func TestGuard_TakesNoNoticeOfSignals(t *testing.T) {
	t.Parallel()
	g := setup(t)
	kept := group(t)
	require.NoError(t, g.Add(kept))
	eventually(t, "the guard to be ready", func() bool { return ignores(t, g.cmd.Process.Pid) })
	for _, s := range ignored {
		require.NoError(t, g.cmd.Process.Signal(s))
	}
	g.Remove(kept)
	require.NoError(t, g.Add(kept))
	g.Close()
	eventually(t, "the end of the group", func() bool { return !lives(kept) })
	require.Zero(t, g.cmd.ProcessState.ExitCode(), "it ended with its pipe")
}

// ignores reports whether a process ignores all the signals that a guard does.
func ignores(t *testing.T, pid int) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "\nSigIgn:\t")
	mask, err := strconv.ParseUint(rest[:16], 16, 64)
	require.NoError(t, err)
	for _, s := range ignored {
		if mask&(1<<(s.(syscall.Signal)-1)) == 0 {
			return false
		}
	}
	return true
}

func TestGuard_IsOutOfReachOfTheTerminal(t *testing.T) {
	t.Parallel()
	g := setup(t)
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(g.cmd.Process.Pid) + "/stat")
	require.NoError(t, err)
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	session := strings.Fields(string(rest))[3]
	require.Equal(t, strconv.Itoa(g.cmd.Process.Pid), session, "it leads its own session")
}

func TestGuard_ManyAtOnce(t *testing.T) {
	t.Parallel()
	g := setup(t)
	var sent sync.WaitGroup
	for worker := range 8 {
		sent.Go(func() {
			for i := range 100 {
				group := 1<<30 + worker*1000 + i // above any process's number
				assert.NoError(t, g.Add(group))
				g.Remove(group)
			}
		})
	}
	sent.Wait()
	require.Empty(t, g.groups.places)
	g.Close()
	require.Zero(t, g.cmd.ProcessState.ExitCode())
}
