package local

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

func sinkFlags(bool) int { return os.O_WRONLY }

func mayWrite(string) error { return nil }

// hideOpen does nothing: Windows keeps the names of open files.
func hideOpen(string) {}

// duplicate is not reached: there are no paths to open files.
func duplicate(int, string) (*os.File, error) { return nil, os.ErrInvalid }

// syncDir does nothing: Windows has no way to sync a directory.
func syncDir(string) error { return nil }

// tryLock locks an open file for this opening alone, if that is possible at once.
func tryLock(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("LockFileEx", err)
}
