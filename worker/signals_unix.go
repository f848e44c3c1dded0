//go:build unix && !linux

package worker

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	sigUSR1 = syscall.SIGUSR1
	sigUSR2 = syscall.SIGUSR2
)

func dup(from, to int) error { return unix.Dup2(from, to) }
