package worker

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup kills the process group that the process leads.
func killGroup(p *os.Process) { signalGroup(p, syscall.SIGKILL) }

// signalGroup sends a signal to the process group that the process leads.
func signalGroup(p *os.Process, s syscall.Signal) { _ = syscall.Kill(-p.Pid, s) } // it may be gone

// awaitExit returns when the process has ended, without reaping it. It always can.
func awaitExit(p *os.Process) bool {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return true // any other error comes again from Wait
		}
	}
}
