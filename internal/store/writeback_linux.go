package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback has the disk begin to write a range of the file, without waiting for it. It is
// only a hint.
func startWriteback(f *os.File, offset, length int64) {
	_ = unix.SyncFileRange(int(f.Fd()), offset, length, unix.SYNC_FILE_RANGE_WRITE)
}

// waitWriteback waits until writing that was started in a range is done. Its error is one that
// fsync would not report again.
func waitWriteback(f *os.File, offset, length int64) error {
	err := unix.SyncFileRange(int(f.Fd()), offset, length, unix.SYNC_FILE_RANGE_WAIT_BEFORE)
	if unsupported(err) {
		return nil
	}
	return err
}

// adviseSequential has the kernel read further ahead.
func adviseSequential(f *os.File) {
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL) // only a hint
}

func unsupported(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESPIPE) ||
		errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM)
}
