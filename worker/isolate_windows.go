package worker

import (
	"errors"
	"os"
)

var selfPath = os.Args[0]

var errNoIsolation = errors.New("isolate: Go handlers cannot be isolated on this system")

func canIsolate() error { return errNoIsolation }

func takeStandardStreams() (in, out *os.File, err error) { return nil, nil, errNoIsolation }
