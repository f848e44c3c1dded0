package worker

import (
	"errors"
	"os"
)

var selfPath = os.Args[0]

var errNoProcesses = errors.New("Options.Processes: Go handlers cannot have their own processes on this system")

func canRunAgain() error { return errNoProcesses }

func takeStandardStreams() (in, out *os.File, err error) { return nil, nil, errNoProcesses }
