//go:build unix

package gateway

import (
	"math"
	"syscall"
)

// descriptors returns how many files this process may have open; 0: it is not known.
func descriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}
