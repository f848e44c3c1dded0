package unique

import (
	"encoding/binary"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/reuse"
	"github.com/stint-run/stint/internal/wire"
)

const (
	digestParts  = 256     // partitions of digests, by their first byte
	digestRecord = 16 + 8  // digest, ordinal
	pairParts    = 256     // partitions of pairs at most, by ranges of ordinals
	pairRecord   = 8 + 8   // of the twin, of its first
	leastRange   = 1 << 20 // ordinals in a range of pairs at least
)

// maxDistinct is how many different digests are held at once. A partition with more is read several times.
var maxDistinct = 1 << 19 // tests take fewer

// Finder finds the items that equal one before them. One goroutine may use it.
type Finder struct {
	dir     string
	hasher  *reuse.Hasher
	items   int64
	digests *spill
}

// NewFinder returns a Finder whose temporary files lie in a directory; empty: where such files usually lie. The caller
// must close it.
func NewFinder(dir string) *Finder {
	return &Finder{dir: dir, hasher: reuse.NewContentHasher(), digests: newSpill(dir, digestRecord, digestParts)}
}

// Add adds the next item. One that is not valid in its format equals none.
func (f *Finder) Add(shape *wire.Shape, item *records.Item) error {
	ordinal := f.items
	f.items++
	digest, ok := f.hasher.Of(shape, item)
	if !ok {
		return nil
	}
	var record [digestRecord]byte
	binary.LittleEndian.PutUint64(record[:], digest.ID)
	binary.LittleEndian.PutUint64(record[8:], digest.Content)
	binary.LittleEndian.PutUint64(record[16:], uint64(ordinal))
	return f.digests.add(int(record[0]), record[:])
}

// Items returns how many items have been added.
func (f *Finder) Items() int64 { return f.items }

// Close removes the temporary files.
func (f *Finder) Close() { f.digests.close() }

// Each calls fn with the ordinals of the twins, in their order, and those of their firsts, until it returns an error.
func (f *Finder) Each(fn func(twin, first int64) error) error {
	width := max(leastRange, (f.items+pairParts-1)/pairParts)
	pairs := newSpill(f.dir, pairRecord, int(f.items/width)+1)
	defer pairs.close()
	var record [pairRecord]byte
	for part := range f.digests.parts {
		err := f.pairs(part, func(twin, first int64) error {
			binary.LittleEndian.PutUint64(record[:], uint64(twin))
			binary.LittleEndian.PutUint64(record[8:], uint64(first))
			return pairs.add(int(twin/width), record[:])
		})
		if err != nil {
			return err
		}
	}
	firsts := make([]int64, min(width, f.items)) // of the twins of a range, plus one
	for part := range pairs.parts {
		if pairs.parts[part].count == 0 {
			continue
		}
		base := int64(part) * width
		clear(firsts)
		err := pairs.each(part, func(record []byte) error {
			firsts[int64(binary.LittleEndian.Uint64(record))-base] = int64(binary.LittleEndian.Uint64(record[8:])) + 1
			return nil
		})
		if err != nil {
			return err
		}
		for i, first := range firsts {
			if first > 0 {
				if err := fn(base+int64(i), first-1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// pairs calls fn with the twins of a partition of digests. Some may come several times.
func (f *Finder) pairs(part int, fn func(twin, first int64) error) error {
	if f.digests.parts[part].count < 2 {
		return nil
	}
	most := int(min(f.digests.parts[part].count, int64(maxDistinct)))
	for todo := []digestRange{{}}; len(todo) > 0; {
		only := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		table := newTable(most)
		err := f.digests.each(part, func(record []byte) error {
			e := entryAt(record)
			if !only.has(e) {
				return nil
			}
			first, known := table.find(e)
			if known {
				return fn(e.ordinal, first)
			}
			for table.count == most {
				lower, upper := only.halves()
				only, todo = lower, append(todo, upper)
				if table = table.only(lower); !lower.has(e) {
					return nil
				}
			}
			table.add(e)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// entry is an item's digest and ordinal.
type entry struct {
	a, b    uint64
	ordinal int64
}

func entryAt(record []byte) entry {
	return entry{binary.LittleEndian.Uint64(record), binary.LittleEndian.Uint64(record[8:]), int64(binary.LittleEndian.Uint64(record[16:]))}
}

// digestRange is some digests: those whose second half begins with so many bits.
type digestRange struct {
	bits   int
	prefix uint64
}

func (r digestRange) has(e entry) bool { return r.bits == 0 || e.b>>(64-r.bits) == r.prefix }

func (r digestRange) halves() (lower, upper digestRange) {
	return digestRange{r.bits + 1, r.prefix << 1}, digestRange{r.bits + 1, r.prefix<<1 | 1}
}

// table has different digests, with open addressing.
type table struct {
	slots []entry // with their ordinals plus one; 0: the slot is free
	count int
}

func newTable(most int) *table {
	size := 16
	for size < 2*most {
		size *= 2
	}
	return &table{slots: make([]entry, size)}
}

// slot returns the index of the digest's slot, or of the free one that it would have.
func (t *table) slot(e entry) int {
	mask := len(t.slots) - 1
	i := int(e.a>>8) & mask // the first byte is that of the partition
	for ; t.slots[i].ordinal > 0; i = (i + 1) & mask {
		if t.slots[i].a == e.a && t.slots[i].b == e.b {
			break
		}
	}
	return i
}

// find returns the ordinal of the item with the digest.
func (t *table) find(e entry) (ordinal int64, ok bool) {
	found := t.slots[t.slot(e)].ordinal
	return found - 1, found > 0
}

// add adds a digest that the table does not have.
func (t *table) add(e entry) {
	e.ordinal++
	t.slots[t.slot(e)] = e
	t.count++
}

// only returns a table of those that are in a range.
func (t *table) only(r digestRange) *table {
	kept := &table{slots: make([]entry, len(t.slots))}
	for _, e := range t.slots {
		if e.ordinal > 0 && r.has(e) {
			e.ordinal--
			kept.add(e)
		}
	}
	return kept
}
