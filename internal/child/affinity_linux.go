package child

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	SigUSR1 = syscall.SIGUSR1
	SigUSR2 = syscall.SIGUSR2
)

// startPinned starts the command on the CPUs. It must be called by a goroutine that is locked to
// its thread: a child inherits the CPUs of the thread that starts it.
func startPinned(cmd *exec.Cmd, cpus []int) error {
	if len(cpus) == 0 {
		return cmd.Start()
	}
	var before, wanted unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("reading the CPU affinity: %w", err)
	}
	for _, cpu := range cpus {
		wanted.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &wanted); err != nil {
		return fmt.Errorf("setting the CPU affinity to %v: %w", cpus, err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }() // they were allowed before
	return cmd.Start()
}

// UsableCPUs returns whether a CPU exists and this process may run on it.
func UsableCPUs() (func(cpu int) bool, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("reading the CPU affinity: %w", err)
	}
	return set.IsSet, nil
}

// WriteAtOnce writes what a pipe takes without waiting, and returns how much that is.
func WriteAtOnce(s stream) func(b []byte) int {
	file, ok := s.(*os.File)
	if !ok {
		return writeNothing
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return writeNothing
	}
	return func(b []byte) (n int) {
		_ = conn.Write(func(fd uintptr) bool { n, _ = unix.Write(int(fd), b); return true }) // who waits will see
		return max(n, 0)
	}
}

func dup(from, to int) error { return unix.Dup3(from, to, 0) }
