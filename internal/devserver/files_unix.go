//go:build unix

package devserver

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// fileLimit is how long the files of this process may get, in bytes.
func fileLimit() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}

// syncDir has the names in a directory on disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
