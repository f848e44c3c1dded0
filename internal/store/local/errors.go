package local

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/stint-run/stint/internal/disk"
	"github.com/stint-run/stint/internal/store/object"
)

// Error wraps an error of package os. The path that it carries, often a temporary one, is replaced
// by where, the name for messages. It returns nil if err is nil.
func Error(op, where string, err error) error {
	if err == nil {
		return nil
	}
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	var callErr *os.SyscallError
	switch {
	case errors.As(err, &pathErr):
		err = pathErr.Err
	case errors.As(err, &linkErr):
		err = linkErr.Err
	case errors.As(err, &callErr):
		err = callErr.Err
	}
	return &object.OpError{Op: op, Where: where, Next: nextStep(where, err), Err: err}
}

func nextStep(where string, err error) string {
	switch {
	case object.Full(err):
		if space, err := disk.Of(where); err == nil {
			where = space.At
		}
		return "free some space on the disk at " + where + ", and the job continues"
	case errors.Is(err, syscall.EROFS):
		return "mount it writable, or name another place"
	case errors.Is(err, syscall.ENOTDIR):
		return "a file stands where a directory is needed"
	case errors.Is(err, syscall.EISDIR):
		return "a directory stands where a file is needed"
	case errors.Is(err, fs.ErrPermission):
		return "give the worker's user access to it"
	}
	return ""
}
