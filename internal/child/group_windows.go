package child

import (
	"errors"
	"os"
	"syscall"
)

func GroupAttributes() *syscall.SysProcAttr { return nil }

func killGroup(p *os.Process) error {
	if err := p.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func signalGroup(p *os.Process, s syscall.Signal) { _ = p.Signal(s) } // only KILL is known here

// awaitExit cannot wait without reaping here.
func awaitExit(*os.Process) bool { return false }
