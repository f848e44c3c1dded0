package child

import (
	"os"
	"syscall"

	"github.com/stint-run/stint/internal/procs"
)

// GroupAttributes are those of a child that leads its own process group and session, and is
// killed when its parent ends.
func GroupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup kills the process group that the process leads. One that is gone is not an error.
func killGroup(p *os.Process) error {
	if err := syscall.Kill(-p.Pid, syscall.SIGKILL); err != syscall.ESRCH {
		return err
	}
	return nil
}

// signalGroup sends a signal to the process group that the process leads.
func signalGroup(p *os.Process, s syscall.Signal) { _ = syscall.Kill(-p.Pid, s) } // it may be gone

// awaitExit returns when the process has ended, without reaping it. It always can.
func awaitExit(p *os.Process) bool {
	procs.AwaitExit(p.Pid)
	return true
}
