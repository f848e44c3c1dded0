package worker

import (
	"os"
	"syscall"
)

func childAttributes() *syscall.SysProcAttr { return nil }

func killGroup(p *os.Process) { _ = p.Kill() } // it may be gone

func signalGroup(p *os.Process, s syscall.Signal) { _ = p.Signal(s) } // only KILL is known here

// awaitExit cannot wait without reaping here.
func awaitExit(*os.Process) bool { return false }
