package store

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"
)

// openRange opens part of a regular file. where is the file's name in messages.
func openRange(ctx context.Context, path, where string, offset, length int64) (*fileRange, error) {
	if err := checkRange(where, offset); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	info, err := os.Stat(path) // before opening: opening a pipe would wait for its writer
	if err != nil {
		return nil, fileError("reading", where, err)
	}
	if err := checkRegular("reading", where, info); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fileError("reading", where, err)
	}
	if offset > 0 {
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			_ = f.Close() // only read from
			return nil, fileError("reading", where, err)
		}
	}
	r := &fileRange{f: f, where: where, left: length}
	if length < 0 {
		r.left = math.MaxInt64
	}
	return r, nil
}

func checkRange(where string, offset int64) error {
	if offset < 0 {
		return fmt.Errorf("reading %s from the negative offset %d: %w", where, offset, fs.ErrInvalid)
	}
	return nil
}

func checkRegular(op, where string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return fileError(op, where, syscall.EISDIR)
	case !mode.IsRegular():
		return &opError{op: op, where: where, err: fs.ErrInvalid,
			text: "it is a pipe, socket or device and cannot be read twice", next: "write it to a file, or pipe it in and name the input -"}
	}
	return nil
}

// fileRange reads up to left bytes of a file from its present offset.
type fileRange struct {
	f     *os.File
	where string
	left  int64
}

func (r *fileRange) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.f.Read(p)
	r.left -= int64(n)
	if err != nil && err != io.EOF {
		err = fileError("reading", r.where, err)
	}
	return n, err
}

func (r *fileRange) Close() error { return r.f.Close() }
