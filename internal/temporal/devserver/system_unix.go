//go:build unix

package devserver

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

const (
	shared    = unix.LOCK_SH
	exclusive = unix.LOCK_EX
)

// tryLock locks an open file if it can be had at once. Closing the file unlocks it.
func tryLock(f *os.File, how int) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, err
		}
	}
}

// fileLimit returns how long the files of this process may get, in bytes.
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
