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

// There are no such signals here: only KILL can be sent.
const (
	SigUSR1 = syscall.Signal(0x1e)
	SigUSR2 = syscall.Signal(0x1f)
)

// SelfPath is this program.
var SelfPath = os.Args[0]

var errNotAgain = errors.New("a program cannot be its own child on this system")

// CanRunAgain returns an error if this program cannot be its own child.
func CanRunAgain() error { return errNotAgain }

// TakeStandardStreams returns an error.
func TakeStandardStreams() (in, out *os.File, err error) { return nil, nil, errNotAgain }
