//go:build unix && !linux

package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// GroupAttributes returns those of a child that leads its own process group.
func GroupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

const (
	SigUSR1 = syscall.SIGUSR1
	SigUSR2 = syscall.SIGUSR2
)

func dup(from, to int) error { return unix.Dup2(from, to) }
