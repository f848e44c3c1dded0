package standard

import "os"

// InputClosed reports whether the standard input was closed when the program began: that is not known here.
func InputClosed() bool { return false }

// OutputClosed is InputClosed for the standard output.
func OutputClosed() bool { return false }

// OutliveReaders does nothing: a write to a pipe that nobody reads fails anyway.
func OutliveReaders() {}

// Writable reports whether there is a directory: what may be done in it shows when it is done.
func Writable(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}
