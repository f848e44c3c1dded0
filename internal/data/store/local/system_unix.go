//go:build unix

package local

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// sinkFlags open a sink for writing: a pipe without waiting for its reader.
func sinkFlags(pipe bool) int {
	if pipe {
		return os.O_WRONLY | syscall.O_NONBLOCK
	}
	return os.O_WRONLY | os.O_APPEND | syscall.O_NOCTTY
}

// mayWrite returns an error if this process may not write to what is at a path. Opening a pipe to find out would be an
// end to its reader.
func mayWrite(path string) error { return unix.Access(path, unix.W_OK) }

// hideOpen removes the name of an open file, so that nothing of it stays if the process is killed.
func hideOpen(path string) { _ = os.Remove(path) }

// duplicate returns another number of a file that this process has open.
func duplicate(number int, path string) (*os.File, error) {
	again, err := unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return os.NewFile(uintptr(again), path), nil
}

// syncDir brings the names in a directory to the disk. File systems that cannot sync a directory
// (some in user space or on a network) keep their names durable by themselves.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// tryLock locks an open file for this opening alone, if that is possible at once.
func tryLock(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, os.NewSyscallError("flock", err)
		}
	}
}
