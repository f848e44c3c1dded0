package timers

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

var systemTable ProcessTable = procfs{}

// procfs is the process table that the kernel shows under /proc.
type procfs struct{}

// Find reads the process's stat. Start times are in clock ticks since boot.
func (procfs) Find(pid int) (ProcessInfo, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return ProcessInfo{}, os.ErrProcessDone
	}
	if err != nil {
		return ProcessInfo{}, err
	}
	return parseStat(stat)
}

// parseStat understands proc_pid_stat(5). The second field is the command's name in brackets,
// which may hold anything, brackets and spaces too.
func parseStat(stat []byte) (ProcessInfo, error) {
	const state, group, startTime = 0, 2, 19 // fields 3, 5 and 22
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= startTime {
		return ProcessInfo{}, fmt.Errorf("process table: %q has too few fields", stat)
	}
	started, err := strconv.ParseUint(string(fields[startTime]), 10, 64)
	if err != nil {
		return ProcessInfo{}, fmt.Errorf("process table: start time: %w", err)
	}
	leader, err := strconv.Atoi(string(fields[group]))
	if err != nil {
		return ProcessInfo{}, fmt.Errorf("process table: group: %w", err)
	}
	ended := fields[state][0] == 'Z' || fields[state][0] == 'X'
	return ProcessInfo{StartTime: started, Group: leader, Zombie: ended}, nil
}

// Open opens a pidfd of the process, if the kernel has them.
func (t procfs) Open(pid int) (ProcessHandle, error) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return nil, err
	}
	info, err := t.Find(pid)
	if err != nil {
		_ = p.Release()
		return nil, err
	}
	return &processHandle{p, info.StartTime}, nil
}

type processHandle struct {
	process *os.Process
	started uint64
}

// Signal uses the pidfd or, if there is none, the pid just after a check of the start time.
func (h *processHandle) Signal(signal syscall.Signal) error {
	if err := h.process.WithHandle(func(uintptr) {}); errors.Is(err, os.ErrNoHandle) && !h.holds() {
		return os.ErrProcessDone
	}
	return h.process.Signal(signal)
}

// SignalGroup goes by pidfd on Linux 6.9 and later. Before, it goes by number, but only while the
// process or its zombie is there: that keeps the number from another group.
func (h *processHandle) SignalGroup(signal syscall.Signal) error {
	sent := error(unix.ENOSYS)
	err := h.process.WithHandle(func(fd uintptr) {
		sent = unix.PidfdSendSignal(int(fd), signal, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	})
	switch {
	case errors.Is(err, os.ErrProcessDone):
		return err
	case errors.Is(sent, unix.EINVAL), errors.Is(sent, unix.ENOSYS), errors.Is(sent, unix.EPERM):
		return h.signalGroupByNumber(signal)
	}
	return done(sent)
}

func (h *processHandle) signalGroupByNumber(signal syscall.Signal) error {
	if !h.holds() {
		return os.ErrProcessDone
	}
	return done(unix.Kill(-h.process.Pid, signal))
}

// holds reports whether the pid is still that of the process.
func (h *processHandle) holds() bool {
	info, err := procfs{}.Find(h.process.Pid)
	return err == nil && info.StartTime == h.started
}

func done(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// Close gives the pidfd back.
func (h *processHandle) Close() error { return h.process.Release() }
