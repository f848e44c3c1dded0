package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// An input that cannot be read from the middle is copied once, uncompressed, into the store, as
// chunks of SpoolChunk bytes each (the last one shorter), so that the chunk of an offset is known
// without a look-up. A byte is durable before any batch refers to it: of an input that is still being written
// the last chunk is replaced by longer ones until it is full. The object "end" marks that
// all of the input has been copied.
//
// It is a variable for tests only, which set it before anything is spooled.
var SpoolChunk int64 = 16 << 20

// SpoolKey returns the key of chunk n of the copy below prefix.
func SpoolKey(prefix string, n int64) string { return path.Join(prefix, fmt.Sprintf("%08d", n)) }
func spoolEnd(prefix string) string          { return path.Join(prefix, "end") }

// spoolComplete reports whether the copy below prefix holds its whole input.
func spoolComplete(ctx context.Context, dir store.Dir, prefix string) (bool, error) {
	_, err := dir.Stat(ctx, spoolEnd(prefix))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// chunker makes sure that a copy has what is read.
type chunker interface {
	// reach makes sure that the byte at offset is in the store. It returns io.EOF if the input ends before it, and
	// errLater if that byte has not come in time.
	reach(ctx context.Context, offset int64, in *gathering) error
	// close frees what was opened to read.
	close()
}

// spooler returns the chunker that fills the copy of a source.
func (n *Inputs) spooler(ctx context.Context, dir store.Dir, s *wire.Source) chunker {
	if s.URL == stdinName {
		return n.stdinChunks(dir, s.Spool)
	}
	return &spooler{dir: dir, prefix: s.Spool, source: s, open: func() (io.ReadCloser, error) { return n.openWhole(ctx, s) }}
}

// spooler copies one input into the store, a chunk at a time, as they are asked for.
type spooler struct {
	dir    store.Dir
	prefix string
	source *wire.Source
	open   func() (io.ReadCloser, error) // from the input's beginning

	reader io.ReadCloser // nil until needed
	next   int64         // the chunk that reader is at
	done   bool
}

// within looks up the byte at offset of a copy. It returns fs.ErrNotExist if the store does not have its chunk, and
// io.EOF if that ends before it, as only the last one does.
func within(ctx context.Context, dir store.Dir, prefix string, offset int64) error {
	info, err := dir.Stat(ctx, SpoolKey(prefix, offset/SpoolChunk))
	if err == nil && offset%SpoolChunk >= info.Size {
		return io.EOF
	}
	return err
}

func (s *spooler) reach(ctx context.Context, offset int64, _ *gathering) error {
	if err := within(ctx, s.dir, s.prefix, offset); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !s.done {
		done, err := spoolComplete(ctx, s.dir, s.prefix)
		if err != nil {
			return err
		}
		s.done = done
	}
	for !s.done && s.next <= offset/SpoolChunk {
		if err := s.copyNext(ctx); err != nil {
			return err
		}
	}
	// Another attempt may have written the chunk, and the end mark, since the first look.
	err := within(ctx, s.dir, s.prefix, offset)
	if errors.Is(err, fs.ErrNotExist) {
		return io.EOF
	}
	return err
}

// copyNext writes the chunk that the reader is at, and the end mark after the last one. A chunk
// that an earlier worker has written is passed over.
func (s *spooler) copyNext(ctx context.Context) error {
	if s.reader == nil {
		r, err := s.open()
		if err != nil {
			return err
		}
		s.reader = r
	}
	from := io.LimitReader(s.reader, SpoolChunk)
	there, err := s.dir.Stat(ctx, SpoolKey(s.prefix, s.next))
	if err == nil {
		return s.readOver(from, there.Size)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	w, err := s.dir.Create(ctx, SpoolKey(s.prefix, s.next))
	if err != nil {
		return ledger.StoreError(job.ErrorOutput, err)
	}
	defer w.Abort()
	n, err := io.Copy(w, from)
	if err != nil {
		return err
	}
	if err := checkCopy(s.source, s.dir, s.next*SpoolChunk+n); err != nil {
		return err
	}
	if n > 0 {
		if err := w.Commit(); err != nil {
			return ledger.StoreError(job.ErrorOutput, err)
		}
		s.next++
	}
	if n < SpoolChunk {
		s.done = true
		return ledger.StoreError(job.ErrorOutput, s.dir.Put(ctx, spoolEnd(s.prefix), fmt.Appendf(nil, "%d", s.next)))
	}
	return nil
}

// readOver reads over a chunk that is in the store.
func (s *spooler) readOver(from io.Reader, size int64) error {
	n, err := io.Copy(io.Discard, from)
	if err != nil {
		return err
	}
	if n != size {
		return ledger.Permanent(job.ErrorChanged, fmt.Errorf(
			"an input changed while it was copied: chunk %d of %s has %d bytes, and the input has %d there; start anew with --fresh", s.next, s.prefix, size, n))
	}
	s.next++
	return nil
}

func (s *spooler) close() {
	if s.reader != nil {
		_ = s.reader.Close() // only read from
	}
}

// SpoolWriter writes what a spoolReader reads. The caller must end or abort it.
type SpoolWriter struct {
	ctx    context.Context
	dir    store.Dir
	Prefix string
	Bytes  int64        // so far
	w      store.Writer // of the chunk in hand; nil: none
}

// NewSpoolWriter returns a writer of the copy below prefix.
func NewSpoolWriter(ctx context.Context, dir store.Dir, prefix string) *SpoolWriter {
	return &SpoolWriter{ctx: ctx, dir: dir, Prefix: prefix}
}

// Write appends data.
func (c *SpoolWriter) Write(data []byte) error {
	for len(data) > 0 {
		if c.w == nil {
			w, err := c.dir.Create(c.ctx, SpoolKey(c.Prefix, c.Bytes/SpoolChunk))
			if err != nil {
				return ledger.StoreError(job.ErrorOutput, err)
			}
			c.w = w
		}
		n := min(int64(len(data)), SpoolChunk-c.Bytes%SpoolChunk)
		if _, err := c.w.Write(data[:n]); err != nil {
			return ledger.StoreError(job.ErrorOutput, err)
		}
		data = data[n:]
		if c.Bytes += n; c.Bytes%SpoolChunk == 0 {
			if err := c.commit(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *SpoolWriter) commit() error {
	w := c.w
	c.w = nil
	return ledger.StoreError(job.ErrorOutput, w.Commit())
}

// End makes the last chunk durable, and the mark that there are no more.
func (c *SpoolWriter) End() error {
	if c.w != nil {
		if err := c.commit(); err != nil {
			return err
		}
	}
	chunks := (c.Bytes + SpoolChunk - 1) / SpoolChunk
	return ledger.StoreError(job.ErrorOutput, c.dir.Put(c.ctx, spoolEnd(c.Prefix), fmt.Appendf(nil, "%d", chunks)))
}

// Abort discards the chunk that is not durable.
func (c *SpoolWriter) Abort() {
	if c.w != nil {
		c.w.Abort()
	}
}

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

// checkCopy returns a permanent error if the copy of the source, of which so many bytes are known, is larger than
// it may be.
func checkCopy(s *wire.Source, dir store.Dir, bytes int64) error {
	if s.MaxInput == 0 || bytes <= s.MaxInput {
		return nil
	}
	return ledger.Permanent(job.ErrorInput, fmt.Errorf(
		"%s has more than %s bytes uncompressed, which is max-input, and is copied to %s: check the input, or start anew with a higher max-input",
		nameOf(s.URL), text.Thousands(s.MaxInput), dir.Location()))
}
