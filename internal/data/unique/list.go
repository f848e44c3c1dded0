package unique

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"path"
	"sort"
	"strings"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// A list is blocks of pairs, by the ordinals of the twins. Of each pair a block has how far the twin is behind the one
// before it, and how far behind its first, as varints, and at its end the CRC-32C of that. Behind the blocks there are for
// each of them the ordinal of its first twin, from which the distances count, and where it begins, eight bytes each.
const (
	blockPairs = 4096
	startBytes = 16
)

// Key returns the key of the list of twins, for the source table at a key.
func Key(sources string) string {
	token := strings.TrimSuffix(strings.TrimPrefix(path.Base(sources), "sources-"), ".json")
	return path.Join(path.Dir(sources), "equal-"+token)
}

// WriteList writes the list of the twins that a Finder finds. It returns nil, and writes nothing, if there are none.
func WriteList(ctx context.Context, dir store.Dir, key string, f *Finder) (*wire.Twins, error) {
	w := &listWriter{
		to: ledger.PartWriter{Dir: dir, Key: key}, ctx: ctx,
		of: wire.Twins{Format: wire.TwinsFormat, Key: key, Items: f.Items()},
	}
	defer w.to.Abort()
	if err := f.Each(w.add); err != nil {
		return nil, err
	}
	if w.of.Count == 0 {
		return nil, nil
	}
	if err := w.end(); err != nil {
		return nil, err
	}
	return &w.of, w.to.Commit()
}

// listWriter writes a list.
type listWriter struct {
	to     ledger.PartWriter
	ctx    context.Context
	of     wire.Twins
	block  []byte
	pairs  int   // in the block
	before int64 // the twin before
	starts []byte
}

func (w *listWriter) add(twin, first int64) error {
	if w.pairs == 0 {
		w.starts = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(w.starts, uint64(twin)), uint64(w.to.Bytes))
		w.before = twin
		w.of.Blocks++
	}
	w.block = binary.AppendUvarint(binary.AppendUvarint(w.block, uint64(twin-w.before)), uint64(twin-first))
	w.before = twin
	w.of.Count++
	if w.pairs++; w.pairs < blockPairs {
		return nil
	}
	return w.flush()
}

func (w *listWriter) flush() error {
	w.block = binary.LittleEndian.AppendUint32(w.block, crc32.Checksum(w.block, wire.CRC32C))
	err := w.to.Write(w.ctx, w.block)
	w.block, w.pairs = w.block[:0], 0
	return err
}

func (w *listWriter) end() error {
	if w.pairs > 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.of.BlockBytes, w.of.Sum = w.to.Bytes, crc32.Checksum(w.starts, wire.CRC32C)
	return w.to.Write(w.ctx, w.starts)
}

// List is a list of twins. It is safe for concurrent use.
type List struct {
	dir    store.Dir
	of     *wire.Twins
	starts []byte
}

// Open opens a list. It returns nil if that is lost or damaged.
func Open(ctx context.Context, dir store.Dir, of *wire.Twins) (*List, error) {
	if of.Format != wire.TwinsFormat || of.Blocks < 0 || of.Blocks > of.Count || of.BlockBytes < 0 {
		return nil, nil
	}
	starts, err := store.ReadRange(ctx, dir, of.Key, of.BlockBytes, of.Blocks*startBytes)
	switch {
	case store.Lost(err):
		return nil, nil
	case err != nil:
		return nil, ledger.StoreError(job.ErrorInput, store.Doing("reading which items are equal", err))
	case crc32.Checksum(starts, wire.CRC32C) != of.Sum:
		return nil, nil
	}
	return &List{dir: dir, of: of, starts: starts}, nil
}

// start returns the first twin of block i, and where the block begins.
func (l *List) start(i int64) (twin, offset int64) {
	b := l.starts[i*startBytes:]
	return int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
}

// Cursor finds twins by their ordinals, which must be ever greater ones. One goroutine may use it. A nil Cursor finds
// none.
type Cursor struct {
	list  *List
	ctx   context.Context
	next  int64 // block
	block []byte
	pair  pair // the next one; zero: it is not read
}

type pair struct{ twin, first int64 }

// Cursor returns a cursor for ordinals from one on.
func (l *List) Cursor(ctx context.Context, from int64) *Cursor {
	if l == nil {
		return nil
	}
	behind := sort.Search(int(l.of.Blocks), func(i int) bool { twin, _ := l.start(int64(i)); return twin > from })
	return &Cursor{list: l, ctx: ctx, next: int64(max(0, behind-1))}
}

// Find returns the first of the item with an ordinal. It is not ok if the item is no twin.
func (c *Cursor) Find(ordinal int64) (first int64, ok bool, err error) {
	p, ok, err := c.from(ordinal)
	return p.first, ok && p.twin == ordinal, err
}

// Any reports whether there is a twin with an ordinal from one on, and before another one.
func (c *Cursor) Any(from, before int64) (bool, error) {
	p, ok, err := c.from(from)
	return ok && p.twin < before, err
}

// from returns the next twin from an ordinal on, which stays the next one. It is not ok if there is none.
func (c *Cursor) from(ordinal int64) (pair, bool, error) {
	if c == nil {
		return pair{}, false, nil
	}
	for c.pair.twin == 0 || c.pair.twin < ordinal { // the first item is no twin
		for len(c.block) == 0 {
			if c.next >= c.list.of.Blocks {
				return pair{}, false, nil
			}
			if err := c.read(); err != nil {
				return pair{}, false, err
			}
		}
		c.decode()
	}
	return c.pair, true, nil
}

// read reads the next block. One that is lost or damaged has nothing.
func (c *Cursor) read() error {
	l := c.list
	twin, offset := l.start(c.next)
	end := l.of.BlockBytes
	if c.next++; c.next < l.of.Blocks {
		_, end = l.start(c.next)
	}
	data, err := store.ReadRange(c.ctx, l.dir, l.of.Key, offset, end-offset)
	if err != nil && !store.Lost(err) {
		return ledger.StoreError(job.ErrorInput, store.Doing("reading which items are equal", err))
	}
	body := len(data) - crc32.Size
	if err != nil || body < 0 || crc32.Checksum(data[:body], wire.CRC32C) != binary.LittleEndian.Uint32(data[body:]) {
		return nil
	}
	c.block, c.pair = data[:body], pair{twin: twin}
	return nil
}

// decode takes the next pair of the block.
func (c *Cursor) decode() {
	further, a := binary.Uvarint(c.block)
	distance, b := binary.Uvarint(c.block[max(0, a):])
	twin := c.pair.twin + int64(further)
	if a <= 0 || b <= 0 || twin >= c.list.of.Items || int64(distance) < 1 || int64(distance) > twin { // of another program
		c.block, c.pair = nil, pair{}
		return
	}
	c.block, c.pair = c.block[a+b:], pair{twin, twin - int64(distance)}
}
