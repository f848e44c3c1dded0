package starter

import (
	"io"
	"os"
)

func standardInput() io.Reader { return os.Stdin }
func outputClosed() bool       { return false }
func outliveReaders()          {}

// isWritable reports whether there is a directory: what may be done in it shows when it is done.
func isWritable(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}
