package activities

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// An input that cannot be read from the middle is copied once, uncompressed, into the store, as
// chunks of spoolChunk bytes each (the last one shorter), so that the chunk of an offset is known
// without a look-up. A chunk is durable before any batch refers to it. The object "end" marks that
// all of the input has been copied.
const spoolChunk = 16 << 20

func chunkKey(prefix string, n int64) string { return path.Join(prefix, fmt.Sprintf("%08d", n)) }
func spoolEnd(prefix string) string          { return path.Join(prefix, "end") }

// SpoolComplete reports whether the copy below prefix holds its whole input.
func spoolComplete(ctx context.Context, dir store.Dir, prefix string) (bool, error) {
	_, err := dir.Stat(ctx, spoolEnd(prefix))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// spooler copies one input into the store, a chunk at a time, as they are asked for.
type spooler struct {
	dir    store.Dir
	prefix string
	open   func() (io.ReadCloser, error) // from the input's beginning

	reader io.ReadCloser // nil until needed
	next   int64         // the chunk that reader is at
	done   bool
}

// chunk makes sure that chunk n is in the store. It returns io.EOF where the input ends before it.
func (s *spooler) chunk(ctx context.Context, n int64) error {
	if _, err := s.dir.Stat(ctx, chunkKey(s.prefix, n)); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !s.done {
		done, err := spoolComplete(ctx, s.dir, s.prefix)
		if err != nil {
			return err
		}
		s.done = done
	}
	for !s.done && s.next <= n {
		if err := s.copyNext(ctx); err != nil {
			return err
		}
	}
	if s.next <= n || s.done && !s.exists(ctx, n) {
		return io.EOF
	}
	return nil
}

func (s *spooler) exists(ctx context.Context, n int64) bool {
	_, err := s.dir.Stat(ctx, chunkKey(s.prefix, n))
	return err == nil
}

// copyNext writes the chunk that the reader is at, and the end mark after the last one. A chunk
// that a worker before this one has written is passed over.
func (s *spooler) copyNext(ctx context.Context) error {
	if s.reader == nil {
		r, err := s.open()
		if err != nil {
			return err
		}
		s.reader = r
	}
	from := io.LimitReader(withContext(ctx, s.reader), spoolChunk)
	if s.exists(ctx, s.next) {
		if _, err := io.Copy(io.Discard, from); err != nil {
			return err
		}
		s.next++
		return nil
	}
	w, err := s.dir.Create(ctx, chunkKey(s.prefix, s.next))
	if err != nil {
		return storeError(job.ErrorOutput, err)
	}
	defer w.Abort()
	n, err := io.Copy(w, from)
	if err != nil {
		return err
	}
	if n > 0 {
		if err := w.Commit(); err != nil {
			return storeError(job.ErrorOutput, err)
		}
		s.next++
	}
	if n < spoolChunk {
		s.done = true
		return storeError(job.ErrorOutput, s.dir.Put(ctx, spoolEnd(s.prefix), fmt.Appendf(nil, "%d", s.next)))
	}
	return nil
}

func (s *spooler) close() {
	if s.reader != nil {
		_ = s.reader.Close() // only read from
	}
}

// spoolReader reads a spooled input from an offset on. need is asked for each chunk before it is
// read; nil where all are there.
type spoolReader struct {
	ctx    context.Context
	dir    store.Dir
	prefix string
	need   func(n int64) error
	offset int64
	left   int64 // -1: to the end

	chunk io.ReadCloser
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
			return n, ignoreEOF(err)
		}
		if err == io.EOF {
			_ = r.chunk.Close() // only read from
			r.chunk = nil
			if r.offset%spoolChunk != 0 {
				return 0, io.EOF // only the last chunk is short
			}
		}
	}
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

func (r *spoolReader) openChunk() error {
	n := r.offset / spoolChunk
	if r.need != nil {
		if err := r.need(n); err != nil {
			return err
		}
	}
	chunk, err := r.dir.Open(r.ctx, chunkKey(r.prefix, n), r.offset%spoolChunk, -1)
	if errors.Is(err, fs.ErrNotExist) {
		if n > 0 && r.offset%spoolChunk == 0 && r.need == nil {
			return io.EOF
		}
		return permanent(job.ErrorInput, fmt.Errorf("reading the copy of the input: %w", err))
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

// openWhole opens a source from its beginning, uncompressed.
func (a *Activities) openWhole(ctx context.Context, s *Source) (io.ReadCloser, error) {
	if s.URL == stdinName {
		return a.takeStdin()
	}
	raw, err := a.opts.Access.OpenInput(ctx, s.URL, 0, -1)
	if err != nil {
		return nil, storeError(job.ErrorInput, err)
	}
	plain, err := records.Decompress(raw, s.Compression)
	if err != nil {
		_ = raw.Close() // only read from
		return nil, permanent(job.ErrorInput, fmt.Errorf("reading %s: %w", s.URL, err))
	}
	return plainReader{plain, raw, s.URL}, nil
}

type plainReader struct {
	io.ReadCloser
	raw io.Closer
	url string
}

func (p plainReader) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if err != nil && err != io.EOF {
		err = permanent(job.ErrorInput, fmt.Errorf("reading %s: %w", p.url, err))
	}
	return n, err
}

func (p plainReader) Close() error { return errors.Join(p.ReadCloser.Close(), p.raw.Close()) }

// openFrom opens a source uncompressed from offset on, by reading over what is before.
func (a *Activities) openFrom(ctx context.Context, s *Source, offset int64) (io.ReadCloser, error) {
	if s.URL == stdinName {
		// Only a survey comes here, with its head not yet read.
		r, err := a.takeStdin()
		if err != nil {
			return nil, err
		}
		var head bytes.Buffer
		if err := s.takeHead(io.TeeReader(r, &head), int64(s.Shape.MaxItem)); err != nil {
			return nil, err
		}
		whole := io.MultiReader(&head, r)
		_, err = io.CopyN(io.Discard, whole, s.Start)
		return io.NopCloser(whole), err
	}
	r, err := a.openWhole(ctx, s)
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, r, offset); err != nil {
		_ = r.Close() // only read from
		return nil, ignoreEOF(err)
	}
	return r, nil
}

// StdinComplete reports whether a job has read its standard input to the end, so that it can go on
// without it.
func StdinComplete(ctx context.Context, access *store.Access, report job.Report) (bool, error) {
	dir, err := access.Open(ctx, report.Store)
	if err != nil {
		return false, err
	}
	a := New(Options{Access: access})
	defer a.Close()
	for info, err := range dir.List(ctx, report.Run+"/sources-") {
		if err != nil {
			return false, err
		}
		table, err := a.table(ctx, dir, info.Key)
		if err != nil {
			return false, err
		}
		for i := range table.Sources {
			if s := &table.Sources[i]; s.URL == stdinName {
				return spoolComplete(ctx, dir, s.Spool)
			}
		}
	}
	return false, nil
}
