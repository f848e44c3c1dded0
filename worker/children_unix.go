//go:build unix && !linux

package worker

import (
	"os"
	"syscall"
)

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the process group that the process leads.
func killGroup(p *os.Process) { signalGroup(p, syscall.SIGKILL) }

// signalGroup sends a signal to the process group that the process leads.
func signalGroup(p *os.Process, s syscall.Signal) { _ = syscall.Kill(-p.Pid, s) } // it may be gone

// awaitExit cannot wait without reaping here.
func awaitExit(*os.Process) bool { return false }
