package child

import (
	"errors"
	"os"
	"syscall"
)

func GroupAttributes() *syscall.SysProcAttr { return nil }

// signalGroup sends a signal to the process: only KILL is known here. One that is gone is not an error.
func signalGroup(p *os.Process, s syscall.Signal) error {
	if err := p.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// awaitExit cannot wait without reaping here.
func awaitExit(*os.Process) bool { return false }
