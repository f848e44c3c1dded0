package reuse

import "errors"

// Copier takes the results of items that lie in the index one behind the other, as those of an input that has not
// changed: whole blocks at once. One goroutine may use it.
type Copier struct {
	c     *Cursor
	take  func(Copied) error
	begun bool
	first int // item of the block at hand with which what is not taken yet begins
	next  int // item of the block that is expected
}

// Copied are some items of one block.
type Copied struct {
	First   int64 // of the index
	Count   int
	Results []byte // must not be changed
	block   *block
	from    int // the first item in the block
}

// NewCopier returns a Copier that gives take what it has found, in order.
func (c *Cursor) NewCopier(take func(Copied) error) *Copier { return &Copier{c: c, take: take} }

// Next looks the next item up. It returns false if that is not the one behind the last, with a result: what was taken
// does not count then.
func (k *Copier) Next(d Digest) (same bool, err error) {
	if k.c.x == nil {
		return false, nil
	}
	h := &k.c.at
	if !k.begun {
		found, err := k.c.Find(d)
		if err != nil || found.Match != Same {
			return false, err
		}
		k.begun = true
		k.first = int(found.Item - h.place.first)
		k.next = k.first + 1
		return true, nil
	}
	if k.next == h.block.count() {
		if more, err := k.nextBlock(); err != nil || !more {
			return false, err
		}
	}
	if k.next >= h.block.count() || h.block.digest(k.next) != d || h.block.none[k.next] {
		return false, nil
	}
	k.next++
	return true, nil
}

// nextBlock takes what is left of the block at hand, and moves on.
func (k *Copier) nextBlock() (more bool, err error) {
	h := &k.c.at
	item := h.place.first + int64(h.block.count())
	if ok, err := k.Flush(); err != nil || !ok || item >= k.c.x.of.Items {
		return false, err
	}
	k.first, k.next = 0, 0
	return true, k.c.lost(k.c.move(h, item))
}

// Flush takes the items that Next has found and that are not taken. It returns false if their results are damaged.
func (k *Copier) Flush() (ok bool, err error) {
	h := &k.c.at
	if k.c.x == nil || !k.begun || k.first == k.next {
		return k.c.x != nil, nil
	}
	if err := k.c.lost(k.c.read(h)); err != nil || h.bad || k.c.x == nil {
		return false, err
	}
	from, _ := h.block.result(k.first)
	_, to := h.block.result(k.next - 1)
	copied := Copied{First: h.place.first + int64(k.first), Count: k.next - k.first, Results: h.results[from:to:to], block: &h.block, from: k.first}
	k.first = k.next
	return true, k.take(copied)
}

// lost has a cursor whose index is lost find nothing from then on.
func (c *Cursor) lost(err error) error {
	if errors.Is(err, errLost) {
		c.x = nil
		return nil
	}
	return err
}
