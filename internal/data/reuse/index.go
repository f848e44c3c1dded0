package reuse

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// The lists of an index: of each block where its first item is, where it lies in the index and where its results begin,
// eight bytes each; and for each bucket how many items are in it and in those before it, four or eight bytes.
const (
	blockEntry = 24
	fpBytes    = 2 // of a digest, in a bucket
)

// layout is where the pieces of an index lie in its object.
type layout struct{ list, buckets, ends, size int64 }

func layoutOf(of *wire.ReuseIndex) layout {
	var l layout
	l.list = of.BlockBytes
	l.buckets = l.list + of.Blocks*blockEntry
	l.ends = l.buckets + of.Items*itemBytes(of)
	l.size = l.ends + (int64(1)<<of.BucketBits)*endBytes(of)
	return l
}

// itemBytes is how many bytes an item takes in a bucket.
func itemBytes(of *wire.ReuseIndex) int64 {
	if of.Wide {
		return 5 + fpBytes
	}
	return 4 + fpBytes
}

func endBytes(of *wire.ReuseIndex) int64 {
	if of.Wide {
		return 8
	}
	return 4
}

// maxBucketBits bounds the list of buckets that is read from an index that may be anything.
const maxBucketBits = 30

// Index is what a run has left for the next one. It is safe for concurrent use.
type Index struct {
	dir    store.Dir
	of     *wire.ReuseIndex
	layout layout
	list   []byte // of the blocks
	ends   []byte // of the buckets
}

// errLost says that an index is not there any more, or is not what was written: nothing is found in it.
var errLost = errors.New("the index is lost")

// Open opens an index, of which it reads the lists. It returns nil if the index is lost or damaged.
func Open(ctx context.Context, dir store.Dir, of *wire.ReuseIndex) (*Index, error) {
	x := &Index{dir: dir, of: of}
	err := x.open(ctx)
	if errors.Is(err, errLost) {
		return nil, nil
	}
	return x, err
}

func (x *Index) open(ctx context.Context) error {
	of := x.of
	if of.Format != wire.ReuseFormat || of.Items < 0 || of.Blocks < 0 || of.Blocks > of.Items || of.BlockBytes < 0 || of.BucketBits < 0 || of.BucketBits > maxBucketBits {
		return errLost
	}
	x.layout = layoutOf(of)
	info, err := x.dir.Stat(ctx, of.Index)
	if err == nil && info.Size != x.layout.size {
		return errLost
	}
	if err == nil {
		x.list, err = store.ReadRange(ctx, x.dir, of.Index, x.layout.list, of.Blocks*blockEntry)
	}
	if err == nil {
		x.ends, err = store.ReadRange(ctx, x.dir, of.Index, x.layout.ends, x.layout.size-x.layout.ends)
	}
	if err != nil {
		return lost(err)
	}
	if crc32.Update(crc32.Checksum(x.list, wire.CRC32C), wire.CRC32C, x.ends) != of.ListsSum {
		return errLost
	}
	return nil
}

// lost returns errLost if an object is missing or cut, and otherwise the error of reading it.
func lost(err error) error {
	if store.Lost(err) {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// place is where a block lies.
type place struct{ first, from, to, results int64 }

// block returns where block i lies.
func (x *Index) block(i int64) place {
	at := func(i int64, field int) int64 {
		return int64(binary.LittleEndian.Uint64(x.list[i*blockEntry+int64(8*field):]))
	}
	p := place{first: at(i, 0), from: at(i, 1), to: x.of.BlockBytes, results: at(i, 2)}
	if i+1 < x.of.Blocks {
		p.to = at(i+1, 1)
	}
	return p
}

// blockOf returns the block of an item.
func (x *Index) blockOf(item int64) int64 {
	n := sort.Search(int(x.of.Blocks), func(i int) bool { return x.block(int64(i)).first > item })
	return int64(n) - 1
}

// bucket returns which items of the index are in the bucket of an ID, as a range of all that are in buckets, and the
// bytes of the ID that they are told apart by.
func (x *Index) bucket(id uint64) (from, to int64, fp uint16) {
	bucket := int64(bucketOf(id, x.of.BucketBits))
	if bucket > 0 {
		from = x.end(bucket - 1)
	}
	return from, x.end(bucket), fpOf(id, x.of.BucketBits)
}

func (x *Index) end(bucket int64) int64 {
	if x.of.Wide {
		return int64(binary.LittleEndian.Uint64(x.ends[bucket*8:]))
	}
	return int64(binary.LittleEndian.Uint32(x.ends[bucket*4:]))
}

// bucketOf is the first bits of an ID, fpOf the two bytes behind them.
func bucketOf(id uint64, bits int) uint64 { return id >> 1 >> (63 - bits) }

func fpOf(id uint64, bits int) uint16 { return uint16(id << bits >> 48) }
