//go:build linux

package procs

import (
	"os"

	"golang.org/x/sys/unix"
)

// AwaitExit returns when a child of this process has ended. It does not collect it.
//
// It waits as one waits for a connection. A goroutine in a system call that blocks keeps one of the processors that Go has for goroutines,
// for up to 10 ms if nothing else happens: with two processors and two children a whole program stood still so long.
func AwaitExit(pid int) {
	pollExit(pid)
	blockUntilExit(pid) // does not block any more, if it could be polled
}

func blockUntilExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return // who collects it gets any other error again
		}
	}
}

// pollExit waits if the kernel can poll processes (from 5.10 on).
func pollExit(pid int) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer func() { _ = f.Close() }() // nothing was written
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Read(func(fd uintptr) bool { // who calls this waits once more
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			if err != unix.EINTR {
				return n > 0 || err != nil
			}
		}
	})
}
