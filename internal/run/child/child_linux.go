package child

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/stint-run/stint/internal/base/procs"
	"golang.org/x/sys/unix"
)

// GroupAttributes returns those of a child that leads its own process group and session, and is
// killed when its parent ends.
func GroupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the process has ended, without reaping it. It always can.
func awaitExit(p *os.Process) bool {
	procs.AwaitExit(p.Pid)
	return true
}

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

// OomKills returns how many processes of this control group the kernel has killed because memory ran out; 0
// if that is not known.
func OomKills() int64 {
	group, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(group)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		root, file := "/sys/fs/cgroup", "memory.events" // of version 2
		if fields[1] == "memory" {
			root, file = "/sys/fs/cgroup/memory", "memory.oom_control"
		} else if fields[0] != "0" || fields[1] != "" {
			continue
		}
		for _, below := range []string{fields[2], ""} { // in a container it is the root
			if n, ok := counter(path.Join(root, below, file), "oom_kill"); ok {
				return n
			}
		}
	}
	return 0
}

// counter reads a line "name value" of a file.
func counter(file, name string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
