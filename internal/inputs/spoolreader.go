package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// spoolReader reads a spooled input from an offset on. need is called with the offset before each chunk is
// read, and wherever one ends; nil if all is there.
type spoolReader struct {
	ctx    context.Context
	dir    store.Dir
	prefix string
	need   func(offset int64) error
	offset int64
	left   int64 // -1: to the end

	chunk io.ReadCloser
}

// OpenSpool reads a complete copy from an offset on, length bytes of it or (-1) to its end. The caller must close it.
func OpenSpool(ctx context.Context, dir store.Dir, prefix string, offset, length int64) io.ReadCloser {
	return &spoolReader{ctx: ctx, dir: dir, prefix: prefix, offset: offset, left: length}
}

func (r *spoolReader) Read(p []byte) (int, error) {
	for {
		if r.left == 0 {
			return 0, io.EOF
		}
		if r.chunk == nil {
			if err := r.openChunk(); err != nil {
				return 0, err
			}
		}
		if r.left > 0 && int64(len(p)) > r.left {
			p = p[:r.left]
		}
		n, err := r.chunk.Read(p)
		r.offset += int64(n)
		if r.left > 0 {
			r.left -= int64(n)
		}
		if n > 0 || err != nil && err != io.EOF {
			return n, IgnoreEOF(err)
		}
		if err == io.EOF {
			_ = r.chunk.Close() // only read from
			r.chunk = nil
			if r.need == nil && r.offset%SpoolChunk != 0 {
				return 0, io.EOF // only the last chunk is short
			}
		}
	}
}

// IgnoreEOF returns nil for io.EOF, and any other error as it is.
func IgnoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

func (r *spoolReader) openChunk() error {
	n := r.offset / SpoolChunk
	if r.need != nil {
		if err := r.need(r.offset); err != nil {
			return err
		}
	}
	chunk, err := r.dir.Open(r.ctx, SpoolKey(r.prefix, n), r.offset%SpoolChunk, -1)
	if errors.Is(err, fs.ErrNotExist) {
		if n > 0 && r.offset%SpoolChunk == 0 && r.need == nil {
			return io.EOF
		}
		return ledger.Permanent(job.ErrorInput, fmt.Errorf("reading the copy of the input: %w", err))
	}
	if err != nil {
		return err
	}
	r.chunk = chunk
	return nil
}

func (r *spoolReader) Close() error {
	if r.chunk == nil {
		return nil
	}
	return r.chunk.Close()
}
