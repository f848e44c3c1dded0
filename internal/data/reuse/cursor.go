package reuse

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// Match is what an index has of an item.
type Match int

const (
	New     Match = iota // nothing
	Changed              // the item with other content
	Again                // the item as it is, and no result of it
	Same                 // the item as it is, and its result
)

const (
	// ahead is how many items of the index behind the last one found are looked at before the buckets are.
	ahead = 64
	// aheadBytes is how much of an index or of results is read at once while they are read in order, nearBytes what is
	// read elsewhere.
	aheadBytes = 512 << 10
	nearBytes  = 4 << 10
)

// Cursor finds items in an index, in any order; it is quick if their order is that of the index. One goroutine may use
// it.
type Cursor struct {
	x       *Index // nil: nothing is found
	ctx     context.Context
	blind   bool  // results are not read
	next    int64 // the item that is expected
	at      held  // the block that it is in
	other   held  // one that the buckets lead to
	blocks  window
	buckets window
	results window
}

// Blind has the cursor read no results: it says what it finds, and does not check that results are as they were.
func (c *Cursor) Blind() *Cursor {
	c.blind = true
	return c
}

// held is a block in memory.
type held struct {
	index   int64 // -1: none
	place   place
	block   block
	results []byte // nil: they are not read
	bad     bool   // the results are not those that it had
}

// Cursor returns a cursor that expects an item of the index next. A nil Index has nothing.
func (x *Index) Cursor(ctx context.Context, expected int64) *Cursor {
	c := &Cursor{x: x, ctx: ctx, next: expected}
	c.at.index, c.other.index = -1, -1
	if x != nil {
		c.blocks = window{dir: x.dir, key: x.of.Index, end: x.of.BlockBytes}
		c.buckets = window{dir: x.dir, key: x.of.Index, end: x.layout.ends}
		c.results = window{dir: x.dir, key: x.of.Results, end: x.of.ResultsBytes}
	}
	return c
}

// Found is what an index has of an item.
type Found struct {
	Match
	Item   int64  // of the index; only if there is a match
	None   bool   // that has no result
	Result []byte // must not be changed; only if it is the same
}

// Find looks an item up. An error is one of the store that may pass: of an index that is lost nothing is found from then
// on.
func (c *Cursor) Find(d Digest) (Found, error) {
	if c.x == nil {
		return Found{}, nil
	}
	best, err := c.find(d)
	if err = c.lost(err); err != nil || c.x == nil {
		return Found{}, err
	}
	return best, nil
}

// find looks at the items that are expected, and then at those in the bucket.
func (c *Cursor) find(d Digest) (best Found, err error) {
	from := c.next
	for item := from; item < min(from+ahead, c.x.of.Items) && best.Match != Same; item++ {
		if err := c.compare(&c.at, item, d, &best); err != nil {
			return best, err
		}
	}
	if best.Match == Same {
		return best, nil
	}
	err = c.inBucket(d.ID, func(item int64) (enough bool, err error) {
		before := best.Match
		if err = c.compare(&c.other, item, d, &best); best.Match > before {
			c.at, c.other = c.other, c.at
			best.Result = bytes.Clone(best.Result) // its block is not held for one
		}
		return best.Match == Same, err
	})
	return best, err
}

// compare compares an item, whose block h then holds. If it is a better match than the best one, the next item is
// expected behind it.
func (c *Cursor) compare(h *held, item int64, d Digest, best *Found) error {
	if err := c.move(h, item); err != nil {
		return err
	}
	i := int(item - h.place.first)
	m, result, err := c.look(h, i, d)
	if err == nil && m > best.Match {
		*best = Found{m, item, h.block.none[i], result}
		c.next = item + 1
	}
	return err
}

// look compares an item of a block.
func (c *Cursor) look(h *held, i int, d Digest) (Match, []byte, error) {
	if i >= h.block.count() { // of a block that is damaged
		return New, nil, nil
	}
	switch got := h.block.digest(i); {
	case got.ID != d.ID:
		return New, nil, nil
	case got.Content != d.Content:
		return Changed, nil, nil
	case h.block.none[i]:
		return Again, nil, nil
	}
	if c.blind {
		return Same, nil, nil
	}
	if err := c.read(h); err != nil {
		return New, nil, err
	}
	if h.bad {
		return Again, nil, nil
	}
	from, to := h.block.result(i)
	return Same, h.results[from:to:to], nil
}

// move has h hold the block of an item.
func (c *Cursor) move(h *held, item int64) error {
	if h.index >= 0 && item >= h.place.first && item < h.place.first+int64(h.block.count()) {
		return nil
	}
	index := h.index + 1
	if h.index < 0 || index >= c.x.of.Blocks || c.x.block(index).first != item {
		index = c.x.blockOf(item)
	}
	if index < 0 {
		return errLost
	}
	h.index = -1 // until the block is there
	place := c.x.block(index)
	data, err := c.blocks.read(c.ctx, place.from, place.to-place.from)
	if err != nil {
		return err
	}
	if h.block.decode(data) != nil {
		h.block = block{}
	}
	h.index, h.place, h.results, h.bad = index, place, nil, false
	return nil
}

// read reads the results of a block.
func (c *Cursor) read(h *held) error {
	if h.results != nil || h.bad || h.block.bytes == 0 {
		return nil
	}
	results, err := c.results.read(c.ctx, h.place.results, h.block.bytes)
	if err != nil {
		return err
	}
	if h.bad = crc32.Checksum(results, wire.CRC32C) != h.block.sum; !h.bad {
		h.results = results
	}
	return nil
}

// inBucket calls look with the items that may have an ID, until it has enough.
func (c *Cursor) inBucket(id uint64, look func(item int64) (enough bool, err error)) error {
	from, to, fp := c.x.bucket(id)
	size := itemBytes(c.x.of)
	if from < 0 || to < from || to > c.x.of.Items {
		return errLost
	}
	data, err := c.buckets.read(c.ctx, c.x.layout.buckets+from*size, (to-from)*size)
	if err != nil {
		return err
	}
	for ; len(data) > 0; data = data[size:] {
		if binary.LittleEndian.Uint16(data) != fp {
			continue
		}
		item := int64(binary.LittleEndian.Uint32(data[fpBytes:]))
		if c.x.of.Wide {
			item |= int64(data[fpBytes+4]) << 32
		}
		if item >= c.x.of.Items {
			continue
		}
		if enough, err := look(item); err != nil || enough {
			return err
		}
	}
	return nil
}

// window is what is in memory of an object, up to an end of it.
type window struct {
	dir  store.Dir
	key  string
	end  int64
	from int64
	data []byte
}

// read returns a range. It stays as it is.
func (w *window) read(ctx context.Context, from, n int64) ([]byte, error) {
	if from < 0 || n < 0 || n > w.end-from {
		return nil, errLost
	}
	behind := w.from + int64(len(w.data))
	if from >= w.from && from+n <= behind {
		return w.data[from-w.from : from-w.from+n : from-w.from+n], nil
	}
	size := max(n, nearBytes)
	if len(w.data) > 0 && from >= w.from && from <= behind {
		size = max(n, aheadBytes) // it is read in order
	}
	data, err := store.ReadRange(ctx, w.dir, w.key, from, min(size, w.end-from))
	if err != nil {
		return nil, lost(err)
	}
	w.from, w.data = from, data
	return data[:n:n], nil
}
