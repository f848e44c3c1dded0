//go:build !linux

package child

import "os"

// newBulkPipe makes a pipe to or from a child.
func newBulkPipe(toChild bool) (ours stream, childs *os.File, err error) { return osPipe(toChild) }
