package reuse

import (
	"context"
	"math/bits"
)

// Seen says which items of an index have been matched: a bit for each.
type Seen []uint64

// NewSeen returns a Seen for so many items.
func NewSeen(items int64) Seen { return make(Seen, (items+63)/64) }

// Add marks some items. Those that there are none of it leaves out.
func (s Seen) Add(first, count int64) {
	for item := max(0, first); item < min(first+count, int64(64*len(s))); item++ {
		s[item/64] |= 1 << (item % 64)
	}
}

// Has reports whether an item is marked.
func (s Seen) Has(item int64) bool { return s[item/64]>>(item%64)&1 == 1 }

// Count returns how many items are marked.
func (s Seen) Count() (count int64) {
	for _, word := range s {
		count += int64(bits.OnesCount64(word))
	}
	return count
}

// Unseen returns the first result of an item that is not marked; nil: there is none, or the index is lost.
func (x *Index) Unseen(ctx context.Context, seen Seen) ([]byte, error) {
	c := x.Cursor(ctx, 0)
	if x == nil {
		return nil, nil
	}
	for item := range x.of.Items {
		if seen.Has(item) {
			continue
		}
		if err := c.move(&c.at, item); err != nil {
			return nil, c.lost(err)
		}
		i := int(item - c.at.place.first)
		if i >= c.at.block.count() || c.at.block.none[i] {
			continue
		}
		if err := c.read(&c.at); err != nil || c.at.bad {
			return nil, c.lost(err)
		}
		from, to := c.at.block.result(i)
		return c.at.results[from:to], nil
	}
	return nil, nil
}
