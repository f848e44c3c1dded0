package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
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

// SpoolKey is the key of chunk n of the copy below prefix.
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
	// reach makes sure that the byte at offset is in the store. It returns io.EOF if the input ends before it, and errLater if that
	// byte has not come in time.
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

// within looks up the byte at offset of a copy. It returns fs.ErrNotExist if the store does not have its chunk, and io.EOF if that
// ends before it, as only the last one does.
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
