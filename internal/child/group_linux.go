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

// signalGroup sends a signal to the process group that the process leads. One that is gone is not an error.
func signalGroup(p *os.Process, s syscall.Signal) error {
	if err := syscall.Kill(-p.Pid, s); err != syscall.ESRCH {
		return err
	}
	return nil
}

// awaitExit returns when the process has ended, without reaping it. It always can.
func awaitExit(p *os.Process) bool {
	procs.AwaitExit(p.Pid)
	return true
}
