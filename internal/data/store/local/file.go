package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"

	"github.com/stint-run/stint/internal/base/disk"
	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/data/store/object"
)

// Open opens the bytes [offset, offset+length) of a regular file, or all from offset on if length is
// negative. where is the file's name in messages.
func Open(ctx context.Context, path, where string, offset, length int64) (*File, error) {
	if err := object.CheckRange(where, offset); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer stall.Begin(ctx, "opening", where).Close()
	info, err := os.Stat(path) // before opening: opening a pipe would wait for its writer
	if err != nil {
		return nil, Error("reading", where, err)
	}
	if err := CheckRegular("reading", where, info); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, Error("reading", where, err)
	}
	if offset > 0 {
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			_ = f.Close() // only read from
			return nil, Error("reading", where, err)
		}
	}
	r := &File{f: f, where: where, left: length, op: stall.New(ctx, "reading", where)}
	if length < 0 {
		r.left = math.MaxInt64
	}
	return r, nil
}

// CheckRegular returns an error if info is not of a regular file: a directory, a pipe, a device.
func CheckRegular(op, where string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return Error(op, where, syscall.EISDIR)
	case !mode.IsRegular():
		return &object.OpError{Op: op, Where: where, Err: fs.ErrInvalid,
			Text: "it is a pipe, socket or device and cannot be read twice", Next: "write it to a file, or pipe it in and name the input -"}
	}
	return nil
}

// File reads a part of a file. It is not safe for concurrent use.
type File struct {
	f     *os.File
	where string
	left  int64 // bytes to read from the present offset
	op    *stall.Op
}

// Read reads up to the end of the part.
func (r *File) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > r.left {
		p = p[:r.left]
	}
	r.op.Begin()
	n, err := r.f.Read(p)
	r.op.End()
	r.left -= int64(n)
	if err != nil && err != io.EOF {
		err = Error("reading", r.where, err)
	}
	return n, err
}

// Close closes the file.
func (r *File) Close() error {
	r.op.Close()
	return r.f.Close()
}

// Sequential hints that a long part is read from its beginning to its end.
func (r *File) Sequential() { adviseSequential(r.f) }

// Forget hints that a range of the file will not be read again.
func (r *File) Forget(offset, length int64) { adviseDone(r.f, offset, length) }

// Info describes a file; key is its name.
func Info(key string, info fs.FileInfo) object.Info {
	inode, changed := identity(info)
	return object.Info{Key: key, Size: info.Size(), ModTime: info.ModTime(), Inode: inode, Changed: changed, Perm: info.Mode().Perm() | 0o600}
}

// Error wraps an error of package os. The path that it carries, often a temporary one, is replaced
// by where, the name for messages. It returns nil if err is nil.
func Error(op, where string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.SyscallError](err); ok {
		err = e.Err
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
