package child

import (
	"errors"
	"os"
)

// SelfPath is this program.
var SelfPath = os.Args[0]

var errNotAgain = errors.New("a program cannot be its own child on this system")

// CanRunAgain returns an error if this program cannot be its own child.
func CanRunAgain() error { return errNotAgain }

// TakeStandardStreams returns an error.
func TakeStandardStreams() (in, out *os.File, err error) { return nil, nil, errNotAgain }
