package reuse

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
)

// Refill reads the notes of a part, and writes them anew for a part in which items have got results of equal ones. If the
// part has no notes, or damaged ones, nothing is written: its items run again. One goroutine may use it.
type Refill struct {
	ctx    context.Context
	in     io.Closer  // nil: there are no notes
	frames noteReader // nil ranges and block: see next
	block  block
	at     int  // of the block
	whole  bool // so far
	out    *Notes
}

// OpenRefill opens the notes of an entry. out takes the new ones; nil: they are only read. The caller must close it.
func OpenRefill(ctx context.Context, dir store.Dir, e ledger.OwnedEntry, out *Notes) (*Refill, error) {
	r := &Refill{ctx: ctx, out: out}
	in, err := dir.Open(ctx, ledger.DigestsKey(e.Owner, e.Entry), 0, -1)
	if errors.Is(err, fs.ErrNotExist) {
		r.whole = e.Bytes == 0 // none of its items had anything to note
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.in, r.whole = in, true
	r.frames.buffer = bufio.NewReaderSize(in, writeAt)
	return r, nil
}

// Result takes over the next item that has a result, and those before it without one. It reports whether a later run may
// take the result.
func (r *Refill) Result(result []byte) (kept bool, err error) {
	for {
		i, ok, err := r.next()
		if r.whole = r.whole && ok; err != nil || !ok {
			return false, err
		}
		d := r.block.digest(i)
		if r.block.none[i] {
			if err := r.None(d); err != nil {
				return false, err
			}
			continue
		}
		if from, to := r.block.result(i); to-from != int64(len(result)) {
			r.whole = false // they are of another part
			return false, nil
		}
		return d != Digest{}, r.Insert(d, result)
	}
}

// Insert adds an item with a result.
func (r *Refill) Insert(d Digest, result []byte) error {
	if r.out == nil || !r.whole {
		return nil
	}
	return r.out.Result(r.ctx, d, result)
}

// None adds an item without a result.
func (r *Refill) None(d Digest) error {
	if r.out == nil || !r.whole {
		return nil
	}
	return r.out.None(r.ctx, d)
}

// Commit takes over what is left, and makes the new notes durable.
func (r *Refill) Commit() error {
	for {
		i, ok, err := r.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if !r.block.none[i] {
			r.whole = false
			break
		}
		if err := r.None(r.block.digest(i)); err != nil {
			return err
		}
	}
	if r.out == nil || !r.whole {
		return nil
	}
	return r.out.Commit(r.ctx)
}

// next returns the place of the next item in the block. It is not ok if there is none, or the notes are damaged.
func (r *Refill) next() (at int, ok bool, err error) {
	for r.whole && r.at == r.block.count() {
		if r.in == nil {
			return 0, false, nil
		}
		isRanges, err := r.frames.next()
		switch {
		case err == io.EOF:
			return 0, false, nil
		case err == nil && isRanges:
			err = r.takeRanges()
		case err == nil:
			r.at, err = 0, r.block.decode(r.frames.frame)
		}
		if errors.Is(err, errDamaged) {
			r.whole = false
		} else if err != nil {
			return 0, false, err
		}
	}
	r.at++
	return r.at - 1, r.whole, nil
}

func (r *Refill) takeRanges() error {
	var matched ranges
	err := matched.decode(r.frames.frame)
	if r.out != nil {
		r.out.matched = append(r.out.matched, matched...)
	}
	return err
}

// Close frees what was opened, and discards the new notes unless they are committed.
func (r *Refill) Close() {
	if r.in != nil {
		_ = r.in.Close() // only read from
	}
	if r.out != nil {
		r.out.Close()
	}
}
