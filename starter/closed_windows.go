package starter

import (
	"io"
	"os"
)

func standardInput() io.Reader  { return os.Stdin }
func standardOutput() io.Writer { return os.Stdout }
func outliveReaders()           {}
