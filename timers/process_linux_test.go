package timers

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// family is a process with a child, which have said that they are ready.
type family struct {
	cmd    *exec.Cmd
	member int // the child's pid
	ended  chan struct{}
}

// launch runs a shell script that starts another process and prints its pid when it is ready. The
// process group is dead when the test ends.
func launch(t *testing.T, script string, ownGroup bool) *family {
	t.Helper()
	f := &family{cmd: exec.Command("sh", "-c", script), ended: make(chan struct{})}
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: ownGroup, Pdeathsig: syscall.SIGKILL}
	out, err := f.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, f.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	f.member, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	go func() {
		defer close(f.ended)
		_ = f.cmd.Wait() // killed
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(f.member, syscall.SIGKILL)
		_ = f.cmd.Process.Kill()
		<-f.ended
	})
	return f
}

func (f *family) pid() int { return f.cmd.Process.Pid }

// lives reports whether a process runs.
func lives(pid int) bool {
	info, err := procfs{}.Find(pid)
	return err == nil && !info.Zombie
}

// eventually waits long, since it only matters when something is broken.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "waited in vain for "+what)
	}
}

const sleeping = "sleep 1000 >&2 & echo $!; wait"

func processReaper(t *testing.T, pid int, o ProcessOptions) *ProcessReaper {
	t.Helper()
	r, err := NewProcessReaper(pid, o)
	require.NoError(t, err)
	return r
}

// T9: a real process that hangs is killed with its group, under a real watchdog.
func TestProcessReaper_KillsGroup(t *testing.T) {
	t.Parallel()
	f := launch(t, sleeping, true)
	events := make(chan Event, 100)
	w, err := New(Options{Interval: time.Millisecond, OnEvent: func(e Event) { events <- e }})
	require.NoError(t, err)
	w.Start()
	defer w.Stop()
	require.NoError(t, w.Client("w", processReaper(t, f.pid(), ProcessOptions{})).Acquire("s", time.Millisecond))
	for e := range events {
		require.NotEqual(t, EventReapFailed, e.Kind, e)
		if e.Kind == EventReaped {
			break
		}
	}
	<-f.ended
	require.Equal(t, syscall.SIGKILL, f.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	eventually(t, "the end of the group", func() bool { return !lives(f.member) })
}

// T9: who leads no group is killed alone.
func TestProcessReaper_KillsMemberAlone(t *testing.T) {
	t.Parallel()
	f := launch(t, sleeping, true)
	require.NoError(t, processReaper(t, f.member, ProcessOptions{}).Reap(t.Context(), Expiry{}))
	require.False(t, lives(f.member))
	<-f.ended
	require.Zero(t, f.cmd.ProcessState.ExitCode(), "its parent ends because its wait does")
}

// T9: a process with another start time is left alone.
func TestProcessReaper_LeavesOthersAlone(t *testing.T) {
	t.Parallel()
	f := launch(t, sleeping, true)
	r := processReaper(t, f.pid(), ProcessOptions{})
	r.started--
	require.NoError(t, r.Reap(t.Context(), Expiry{}))
	require.True(t, lives(f.pid()))
	require.True(t, lives(f.member))
}

// T10: after patience KILL follows, for all of the group.
func TestProcessReaper_Patience(t *testing.T) {
	t.Parallel()
	f := launch(t, "trap '' TERM; "+sleeping, true)
	r := processReaper(t, f.pid(), ProcessOptions{Patience: minPatience})
	require.NoError(t, r.Reap(t.Context(), Expiry{Signal: syscall.SIGTERM}))
	<-f.ended
	require.Equal(t, syscall.SIGKILL, f.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	eventually(t, "the end of the group", func() bool { return !lives(f.member) })
}

// T9: whoever of the group outlives its leader's obedience is killed as well.
func TestProcessReaper_RestOfGroup(t *testing.T) {
	t.Parallel()
	f := launch(t, `trap '' TERM; sleep 1000 >&2 & echo $!; trap 'exit 3' TERM; wait`, true)
	// It prints before it sets its second trap: a signal that comes between is ignored.
	r := processReaper(t, f.pid(), ProcessOptions{})
	if !signalsGroups(t, f.pid()) {
		t.Skip("pidfds do not reach groups before Linux 6.9")
	}
	eventually(t, "the second trap", func() bool { return catches(t, f.pid(), syscall.SIGTERM) })
	require.NoError(t, r.Reap(t.Context(), Expiry{Signal: syscall.SIGTERM}))
	<-f.ended
	require.Equal(t, 3, f.cmd.ProcessState.ExitCode())
	eventually(t, "the end of the group", func() bool { return !lives(f.member) })
}

// signalsGroups reports whether the kernel can signal a group through the pidfd of its leader.
func signalsGroups(t *testing.T, leader int) bool {
	t.Helper()
	fd, err := unix.PidfdOpen(leader, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, 0, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP) == nil
}

// catches reports whether a process has a handler for a signal.
func catches(t *testing.T, pid int, signal syscall.Signal) bool {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "\nSigCgt:\t")
	mask, err := strconv.ParseUint(rest[:16], 16, 64)
	require.NoError(t, err)
	return mask&(1<<(signal-1)) != 0
}

// T9: if the kernel cannot signal a group through a pidfd, it is signalled by number, but only
// while the number is kept by its leader.
func TestProcessHandle_GroupByNumber(t *testing.T) {
	t.Parallel()
	f := launch(t, sleeping, true)
	opened, err := procfs{}.Open(f.pid())
	require.NoError(t, err)
	defer opened.Close()
	h := opened.(*processHandle)
	require.NoError(t, h.signalGroupByNumber(0))
	h.started--
	require.ErrorIs(t, h.signalGroupByNumber(unix.SIGKILL), os.ErrProcessDone)
	require.True(t, lives(f.pid()))
	h.started++
	require.NoError(t, h.signalGroupByNumber(unix.SIGKILL))
	<-f.ended
	eventually(t, "the end of the group", func() bool { return !lives(f.member) })
	require.ErrorIs(t, h.signalGroupByNumber(unix.SIGKILL), os.ErrProcessDone)
	require.ErrorIs(t, h.Signal(unix.SIGKILL), os.ErrProcessDone)
}

// A zombie has ended, though it has a pid still.
func TestProcfs_Zombie(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	r := processReaper(t, cmd.Process.Pid, ProcessOptions{})
	require.NoError(t, r.Reap(t.Context(), Expiry{}), "nobody waits for it before it returns")
	info, err := procfs{}.Find(cmd.Process.Pid)
	require.NoError(t, err)
	require.True(t, info.Zombie)
	require.NoError(t, r.Reap(t.Context(), Expiry{}))
	_, err = NewProcessReaper(cmd.Process.Pid, ProcessOptions{})
	require.ErrorIs(t, err, os.ErrProcessDone)
	require.Error(t, cmd.Wait())
	_, err = procfs{}.Find(cmd.Process.Pid)
	require.ErrorIs(t, err, os.ErrProcessDone)
	_, err = procfs{}.Open(cmd.Process.Pid)
	require.ErrorIs(t, err, os.ErrProcessDone)
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654321 1000 10"
	for _, name := range []string{"(sh)", "(a b)", "(a) S 9 9 (9)", "()", "(\n)"} {
		info, err := parseStat([]byte("17 " + name + rest))
		require.NoError(t, err)
		require.Equal(t, ProcessInfo{StartTime: 987654321, Group: 42}, info, name)
	}
	for _, wrong := range []string{"", "17 (sh)", "17 (sh) S 1 42 42", "17 (sh)" + strings.Replace(rest, "9876", "x", 1), "17 (sh)" + strings.Replace(rest, "42", "x", 1)} {
		_, err := parseStat([]byte(wrong))
		require.Error(t, err, wrong)
	}
	own, err := procfs{}.Find(os.Getpid())
	require.NoError(t, err)
	require.Equal(t, unix.Getpgrp(), own.Group)
	require.NotZero(t, own.StartTime)
}
