package ledger

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Judged is an error of which is known what follows.
type Judged struct {
	kind  string
	final bool
	cause error
}

// Permanent returns an error of that kind, one of job.Error…, which trying again does not mend.
func Permanent(kind string, err error) error { return &Judged{kind: kind, final: true, cause: err} }

func (e *Judged) Error() string { return e.cause.Error() }

// Unwrap returns what was judged.
func (e *Judged) Unwrap() error { return e.cause }

// Type returns the error's kind, one of job.Error….
func (e *Judged) Type() string { return e.kind }

// NonRetryable reports whether trying again would bring the same.
func (e *Judged) NonRetryable() bool { return e.final }

// StoreError makes an error of the store, or of the host of an input, one that activities return. If retrying cannot
// help, it is permanent and of that kind; otherwise it is an outage, which costs nothing but time. A cancellation stays
// what it is. It returns nil for nil.
func StoreError(kind string, err error) error {
	if judged, ok := errors.AsType[*Judged](err); ok {
		return judged // however deep: workflows see what is at the top
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*store.FencedError)):
		return Permanent(job.ErrorFenced, err)
	case errors.As(err, new(*store.CorruptError)):
		return Permanent(job.ErrorCorrupt, err)
	case store.Permanent(err):
		return Permanent(kind, err)
	case errors.Is(err, context.Canceled):
		return err
	}
	return &Judged{kind: job.ErrorOutage, cause: err}
}

// Plain returns for people an error that was made for workflows, without what lies around it.
func Plain(err error) error {
	if judged, ok := errors.AsType[*Judged](err); ok {
		return judged
	}
	return err
}

// Raised returns what an activity returns for err: the error that decides what follows, however deep it lies,
// and for an error of the store that nobody has judged yet, what StoreError makes of it.
func Raised(err error) error {
	if errors.As(err, new(*Judged)) || errors.As(err, new(*store.OpError)) {
		return StoreError(job.ErrorOutput, err)
	}
	return err
}

// FormatSum returns a CRC-32C as reports and lists of parts show it.
func FormatSum(sum uint32) string { return fmt.Sprintf("crc32c:%08x", sum) }

// Checksum reads an object, copies it to also, and returns its CRC-32C and its length in bytes.
func Checksum(ctx context.Context, dir store.Dir, key string, also io.Writer) (uint32, int64, error) {
	r, err := dir.Open(ctx, key, 0, -1)
	if err != nil {
		return 0, 0, err
	}
	defer r.Close()
	sum := crc32.New(wire.CRC32C)
	n, err := io.CopyBuffer(io.MultiWriter(sum, also), struct{ io.Reader }{r}, make([]byte, 256<<10))
	return sum.Sum32(), n, err
}

// Verified returns an error unless the part is the one that was accepted. err is the error of reading it.
func Verified(key string, gotBytes, bytes int64, gotSum, sum uint32, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Permanent(job.ErrorCorrupt, fmt.Errorf("part %s is gone from the store: %w", key, err))
	case err != nil:
		return StoreError(job.ErrorCorrupt, fmt.Errorf("verifying part %s: %w", key, err))
	case gotBytes != bytes || gotSum != sum:
		return Permanent(job.ErrorCorrupt, fmt.Errorf(
			"part %s is not what was accepted: it has %d bytes, %s, and had %d bytes, %s", key, gotBytes, FormatSum(gotSum), bytes, FormatSum(sum)))
	}
	return nil
}

// SummedReader reads an object of a part, and counts and sums up what it has read.
type SummedReader struct {
	Key   string
	Bytes int64  // read so far
	Sum   uint32 // their CRC-32C
	r     io.ReadCloser
	err   error // of reading
}

// NewSummedReader returns a reader of r, which is the object at key. The caller must close it.
func NewSummedReader(key string, r io.ReadCloser) *SummedReader { return &SummedReader{Key: key, r: r} }

// OpenSummed opens an object of a part.
func OpenSummed(ctx context.Context, dir store.Dir, key string) (*SummedReader, error) {
	r, err := dir.Open(ctx, key, 0, -1)
	if err != nil {
		return nil, Verified(key, 0, 0, 0, 0, err)
	}
	return NewSummedReader(key, r), nil
}

func (s *SummedReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.Bytes += int64(n)
	s.Sum = crc32.Update(s.Sum, wire.CRC32C, p[:n])
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// Verify returns an error unless the object, read to its end, is the one that was accepted.
func (s *SummedReader) Verify(bytes int64, sum uint32) error {
	return Verified(s.Key, s.Bytes, bytes, s.Sum, sum, s.err)
}

// Failed returns the error of reading, nil if there was none.
func (s *SummedReader) Failed() error { return s.err }

// Broken returns the error of an object whose content cannot be read; err says why, unless reading failed.
func (s *SummedReader) Broken(err error) error {
	if s.err != nil {
		return StoreError(job.ErrorCorrupt, store.Doing("reading part "+s.Key, s.err))
	}
	return Permanent(job.ErrorCorrupt, fmt.Errorf("reading part %s: %w", s.Key, err))
}

// Close closes the object.
func (s *SummedReader) Close() { _ = s.r.Close() } // only read from
