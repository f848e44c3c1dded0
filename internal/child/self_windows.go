package child

import (
	"errors"
	"os"
)

var SelfPath = os.Args[0]

var errNoProcesses = errors.New("Options.Processes: Go handlers cannot have their own processes on this system")

func CanRunAgain() error { return errNoProcesses }

func TakeStandardStreams() (in, out *os.File, err error) { return nil, nil, errNoProcesses }
