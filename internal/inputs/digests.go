package inputs

import (
	"fmt"
	"hash/crc32"
	"io"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Size, time and the digest of some blocks do not show each change of an input: bytes in the middle can be changed, and
// the time set back. So Plan sums up the bytes of each batch, which pass through it anyway, and Process sums up what it
// reads and compares.

// sums is the digest of the batch that is planned. That of a bundle goes over what the items of each input are read
// from, one input after the other: to the end, if the batch goes on in the next one.
type sums struct {
	data   []byte // of a bundle: what is left of the input that is open
	behind uint32 // the sum of all that was passed
}

func (s *sums) begin() { s.behind = 0 }

// end passes over what is left of an input of a bundle.
func (s *sums) end() {
	s.behind, s.data = crc32.Update(s.behind, castagnoli, s.data), nil
}

// digestOf takes one more cut into the digest of the batch and returns that; 0 if the source has none.
func (p *planner) digestOf(source *wire.Source, cut records.Cut) uint32 {
	switch {
	case !changeable(source):
		return 0
	case source.Bundle == nil:
		return max(1, p.cutter.Sum()) // all of the batch: it ends where the cutter does
	}
	p.sums.behind = crc32.Update(p.sums.behind, castagnoli, p.sums.data[:cut.Length])
	p.sums.data = p.sums.data[cut.Length:]
	return max(1, p.sums.behind)
}

// summed sums up what is read.
type summed struct {
	io.ReadCloser
	read int64 // bytes
	sum  uint32
}

func (s *summed) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	s.read += int64(n)
	s.sum = crc32.Update(s.sum, castagnoli, b[:n])
	return n, err
}

// sameBytes returns a permanent error unless the bytes of the batch are those that were planned. If only some of its
// items are done it reads the batch again, because where they end shows in no other way, and finds the digest of the
// rest.
func (r *Range) sameBytes() error {
	if r.batch.Digest == 0 || r.count == 0 {
		return nil
	}
	digest, known := r.from.digest()
	if !known || r.count < r.batch.Count {
		rest, err := r.from.reread(r.batch.After(r.count, r.length))
		if err != nil {
			return err
		}
		if digest, err = r.from.reread(r.batch); err != nil { // after the rest: so that is what was planned, too
			return err
		}
		r.rest = max(1, rest)
	}
	if max(1, digest) == r.batch.Digest {
		return nil
	}
	url, offset, _ := r.from.at(r.batch.Offset)
	return ledger.Permanent(job.ErrorChanged, fmt.Errorf(
		"input %s changed while the job ran: the %d bytes from offset %d are not those that were planned, although its size and time are; "+
			"put the old file back and resume, or start anew with --fresh", url, r.batch.Length, offset))
}

// digest is that of what was read, if that is all.
func (w *wholeStretch) digest() (uint32, bool) {
	body, is := w.body.(*summed)
	if !is || body.read != w.length {
		return 0, false
	}
	return body.sum, true
}

// reread returns the digest of the bytes of a batch, which it reads.
func (w *wholeStretch) reread(batch wire.Batch) (uint32, error) {
	body, err := w.inputs.access.OpenInput(w.ctx, w.source.URL, batch.Offset, batch.Length)
	if err != nil {
		return 0, ledger.StoreError(job.ErrorInput, err)
	}
	s := &summed{ReadCloser: body}
	defer s.Close()
	if _, err := io.Copy(io.Discard, s); err != nil {
		return 0, ledger.StoreError(job.ErrorInput, store.Doing("reading "+w.source.URL, err))
	}
	return s.sum, nil
}

func (b *bundleStretches) digest() (uint32, bool) { return b.sum, b.offset >= b.end }

func (b *bundleStretches) reread(batch wire.Batch) (uint32, error) {
	again := b.inputs.bundleStretches(b.ctx, b.source, b.members, batch)
	for {
		if _, err := again.next(); err == io.EOF {
			return again.sum, nil
		} else if err != nil {
			return 0, err
		}
	}
}
