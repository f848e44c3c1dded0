//go:build unix && !linux

package child

import (
	"os"
	"syscall"
)

// GroupAttributes are those of a child that leads its own process group.
func GroupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the process group that the process leads. One that is gone is not an error.
func killGroup(p *os.Process) error {
	if err := syscall.Kill(-p.Pid, syscall.SIGKILL); err != syscall.ESRCH {
		return err
	}
	return nil
}

// signalGroup sends a signal to the process group that the process leads.
func signalGroup(p *os.Process, s syscall.Signal) { _ = syscall.Kill(-p.Pid, s) } // it may be gone
