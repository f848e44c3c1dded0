package devserver

import (
	"errors"
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
