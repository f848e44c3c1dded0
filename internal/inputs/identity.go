package inputs

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// A file can be replaced by another of the same size and time. Its inode and the time of its last change show that, but also that its rights
// were changed, that it was put back from a backup, or that another machine has a copy of it. So the content decides then, as far as its
// digest has it: that of some blocks all over the file. Only of the inputs behind the first [maxDigests] in bundles, of which there is no digest, the
// inode and the change decide, if the machine is the same: see [Table.members].
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

// digest returns a digest of an input's bytes as they are stored, if it is of a file system that could replace it unseen.
func (n *Inputs) digest(ctx context.Context, input store.Input) (string, error) {
	if input.ETag != "" || input.Changed.IsZero() || input.Size == 0 {
		return "", nil
	}
	size := input.Size
	if records.CompressionOf(input.URL) != records.None {
		size = max(0, size-checksums) // of the rest
	}
	sum := crc32.New(castagnoli)
	if size <= wholeDigest {
		if err := n.sum(ctx, sum, input.URL, 0, size); err != nil {
			return "", err
		}
		return fmt.Sprintf("%08x", sum.Sum32()), nil
	}
	if err := n.sum(ctx, sum, input.URL, 0, digestEnds); err != nil {
		return "", err
	}
	between := (size - 2*digestEnds) / digestBlocks
	for i := range int64(digestBlocks) {
		if err := n.sum(ctx, sum, input.URL, digestEnds+i*between, digestBlock); err != nil {
			return "", err
		}
	}
	if err := n.sum(ctx, sum, input.URL, size-digestEnds, digestEnds); err != nil {
		return "", err
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
