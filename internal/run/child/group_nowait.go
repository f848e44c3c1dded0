//go:build unix && !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package child

import "os"

// awaitExit cannot wait without reaping here.
func awaitExit(*os.Process) bool { return false }
