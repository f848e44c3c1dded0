package local

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startWriteback makes the disk begin to write a range of the file, without waiting for it. It is
// only a hint.
func startWriteback(f *os.File, offset, length int64) {
	_ = unix.SyncFileRange(int(f.Fd()), offset, length, unix.SYNC_FILE_RANGE_WRITE)
}

// waitWriteback waits until the writing that was started in a range is done. It returns errors that
// fsync would not report again.
func waitWriteback(f *os.File, offset, length int64) error {
	err := unix.SyncFileRange(int(f.Fd()), offset, length, unix.SYNC_FILE_RANGE_WAIT_BEFORE)
	if unsupported(err) {
		return nil
	}
	return err
}

// adviseSequential makes the kernel read further ahead.
func adviseSequential(f *os.File) {
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL) // only a hint
}

// adviseDone makes the kernel drop a range that is not read again, which frees its memory.
func adviseDone(f *os.File, offset, length int64) {
	_ = unix.Fadvise(int(f.Fd()), offset, length, unix.FADV_DONTNEED) // only a hint
}

func unsupported(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESPIPE) ||
		errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM)
}

// createDirect makes a new file that is written past the page cache, or through it if the file
// system supports nothing else.
func createDirect(path string, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_DIRECT, perm)
	if errors.Is(err, unix.EINVAL) {
		_ = os.Remove(path) // some file systems have made it by then
		return createCached(path, perm)
	}
	return f, err
}

// leaveDirect makes writes to a file go through the page cache from now on.
func leaveDirect(f *os.File) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil && flags&unix.O_DIRECT != 0 {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags&^unix.O_DIRECT)
	}
	return err
}

// alignmentError reports whether a write failed because it went past the page cache.
func alignmentError(err error) bool { return errors.Is(err, unix.EINVAL) }

// identity returns what distinguishes a file from another one of the same name, size and time: its number, and when it
// was last changed in any way, which nobody can set.
func identity(info fs.FileInfo) (inode uint64, changed time.Time) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino, time.Unix(stat.Ctim.Unix())
	}
	return 0, time.Time{}
}
