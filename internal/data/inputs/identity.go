package inputs

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// A file can be replaced by another of the same size and time. Its inode and the time of its last change show that, but
// also that its rights were changed, that it was put back from a backup, or that another machine has a copy of it. So
// the content decides then, as far as its digest has it: that of some blocks all over the file. Only of the inputs
// behind the first [maxDigests] in bundles, of which there is no digest, the inode and the change decide, if the
// machine is the same: see [Table.members].
const (
	maxDigests   = 256
	digestEnds   = 64 << 10 // bytes at the beginning and at the end
	digestBlock  = 4 << 10
	digestBlocks = 14 // between these
	checksums    = 8  // bytes at the end of compressed data
	wholeDigest  = 2*digestEnds + digestBlocks*digestBlock
)

// machine is this machine's name.
var machine = func() string {
	name, _ := os.Hostname() // without one all are alike
	return name
}()

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// digest returns a digest of an input's bytes as they are stored, if it is of a file system that could replace it
// unseen.
func (n *Inputs) digest(ctx context.Context, input store.Input) (string, error) {
	if input.ETag != "" || input.Changed.IsZero() || input.Size == 0 {
		return "", nil
	}
	size := input.Size
	if records.CompressionOf(input.URL) != records.None {
		size = max(0, size-checksums) // of the rest
	}
	type piece struct{ offset, length int64 }
	pieces := []piece{{0, size}}
	if size > wholeDigest {
		pieces = []piece{{0, digestEnds}}
		between := (size - 2*digestEnds) / digestBlocks
		for i := range int64(digestBlocks) {
			pieces = append(pieces, piece{digestEnds + i*between, digestBlock})
		}
		pieces = append(pieces, piece{size - digestEnds, digestEnds})
	}
	sum := crc32.New(castagnoli)
	for _, p := range pieces {
		if err := n.sum(ctx, sum, input.URL, p.offset, p.length); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%08x", sum.Sum32()), nil
}

// sum adds a range of an input to a sum.
func (n *Inputs) sum(ctx context.Context, sum hash.Hash32, url string, offset, length int64) error {
	r, err := n.access.OpenInput(ctx, url, offset, length)
	if err != nil {
		return ledger.StoreError(job.ErrorInput, err)
	}
	defer r.Close()
	if _, err := io.Copy(sum, r); err != nil {
		return ledger.StoreError(job.ErrorInput, store.Doing("reading "+url, err))
	}
	return nil
}

var errReplaced = errors.New("it was replaced by another file of the same size and time")

// alike returns an error unless a file, whose size and time are those that were planned, is also otherwise what it was.
func (n *Inputs) alike(ctx context.Context, before store.Input, now store.Info) error {
	if before.Changed.IsZero() || now.Changed.IsZero() || now.Changed.Equal(before.Changed) && now.Inode == before.Inode {
		return nil
	}
	if before.Digest == "" {
		return errReplaced
	}
	was := store.Input{URL: before.URL, Info: now}
	n.mu.Lock()
	seen, ok := n.seen[before.URL]
	n.mu.Unlock()
	if ok && seen.Digest == before.Digest && seen.Inode == now.Inode && seen.Changed.Equal(now.Changed) {
		return nil
	}
	digest, err := n.digest(ctx, was)
	if err != nil {
		return err
	}
	if digest != before.Digest {
		return errReplaced
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.seen) >= maxDigests {
		clear(n.seen)
	}
	was.Digest = digest
	n.seen[before.URL] = was
	return nil
}

// Size, time and the digest of some blocks do not show each change of an input: bytes in the middle can be changed, and
// the time set back. So Plan sums up the bytes of each batch, which pass through it anyway, and Process sums up what it
// reads and compares.

// sums is the digest of the batch that is planned. That of a bundle goes over what the items of each input are read
// from, one input after the other: to the end, if the batch goes on in the next one.
type sums struct {
	data   []byte // of a bundle: what is left of the input that is open
	behind uint32 // the sum of all that was passed
}

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
func (w *wholeSection) digest() (uint32, bool) {
	if w.read == nil || w.read.Bytes != w.batch.Length {
		return 0, false
	}
	return w.read.Sum, true
}

// reread returns the digest of the bytes of a batch, which it reads.
func (w *wholeSection) reread(batch wire.Batch) (uint32, error) {
	body, err := w.inputs.access.OpenInput(w.ctx, w.source.URL, batch.Offset, batch.Length)
	if err != nil {
		return 0, ledger.StoreError(job.ErrorInput, err)
	}
	defer body.Close()
	var read wire.SideFile // counts and sums up
	if _, err := io.Copy(&read, body); err != nil {
		return 0, ledger.StoreError(job.ErrorInput, store.Doing("reading "+w.source.URL, err))
	}
	return read.Sum, nil
}

func (b *bundleSections) digest() (uint32, bool) { return b.sum, b.offset >= b.end }

func (b *bundleSections) reread(batch wire.Batch) (uint32, error) {
	again := b.inputs.bundleSections(b.ctx, b.source, b.members, batch)
	for {
		if _, err := again.next(); err == io.EOF {
			return again.sum, nil
		} else if err != nil {
			return 0, err
		}
	}
}
