package devserver

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

const (
	shared    = 0
	exclusive = windows.LOCKFILE_EXCLUSIVE_LOCK
)

// tryLock locks an open file if it can be had at once. Closing the file unlocks it.
func tryLock(f *os.File, how int) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), uint32(how)|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// fileLimit returns how long the files of this process may get, in bytes: Windows has no limit.
func fileLimit() uint64 { return math.MaxUint64 }

// syncDir does nothing: Windows has no way to sync a directory.
func syncDir(string) error { return nil }
