//go:build unix

package devserver

import (
	"errors"
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
