//go:build unix && !linux

package child

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// GroupAttributes are those of a child that leads its own process group.
func GroupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalGroup sends a signal to the process group that the process leads. One that is gone is not an error.
func signalGroup(p *os.Process, s syscall.Signal) error {
	if err := syscall.Kill(-p.Pid, s); err != syscall.ESRCH {
		return err
	}
	return nil
}

const (
	SigUSR1 = syscall.SIGUSR1
	SigUSR2 = syscall.SIGUSR2
)

func dup(from, to int) error { return unix.Dup2(from, to) }
