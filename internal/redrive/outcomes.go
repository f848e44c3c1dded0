package redrive

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
)

// outcomeReader reads the outcomes of the items of a redrive, one after the other. A part's results and
// the lines of its errors are in the order of its items; a line comes before the result that begins
// where the line's would have begun, since no result is empty. In a job that flattens results, an item whose results are not one
// line has a line of its own that says so.
type outcomeReader struct {
	ctx  context.Context
	dir  store.Dir
	pull func() (ledger.OwnedEntry, error, bool)
	stop func()

	entry    ledger.OwnedEntry // the current one
	left     int64             // of its items
	at       int64             // of its results
	body     *ledger.SummedReader
	results  *ledger.Lines
	failures *ledger.ErrorReader
	failure  *wire.ErrorLine // the next one; nil: none
}

func newOutcomes(ctx context.Context, dir store.Dir, links ledger.Links) *outcomeReader {
	o := &outcomeReader{ctx: ctx, dir: dir}
	o.pull, o.stop = iter.Pull2(func(yield func(ledger.OwnedEntry, error) bool) {
		errEnough := errors.New("no more wanted")
		err := ledger.Entries(ctx, dir, links, func(e ledger.OwnedEntry) error {
			if !yield(e, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(ledger.OwnedEntry{}, err)
		}
	})
	return o
}

func (o *outcomeReader) close() {
	o.stop()
	o.closePart()
}

func (o *outcomeReader) closePart() {
	o.failures.Close()
	if o.body != nil {
		o.body.Close()
	}
	o.failures, o.body, o.results = nil, nil, nil
}

// next returns the line of an item that has failed or was dropped. It returns nil for one that has a
// result: copyResult must follow. So it must, as often as the line says, for one that has several or none.
func (o *outcomeReader) next() (*wire.ErrorLine, error) {
	for o.left == 0 {
		if err := o.endPart(); err != nil {
			return nil, err
		}
		more, err := o.nextPart()
		if err != nil {
			return nil, err
		}
		if !more {
			return nil, ledger.Unbalanced("fewer items were run again than had failed")
		}
	}
	o.left--
	line := o.failure
	if line == nil || line.At != o.at {
		return nil, nil
	}
	var err error
	o.failure, err = o.failures.Next()
	return line, err
}

// copyResult copies the next line of the results of the current item.
func (o *outcomeReader) copyResult(w io.Writer) error {
	if o.results == nil {
		return ledger.Unbalanced("the part with items %d to %d of those run again has too few results", o.entry.First, o.entry.End()-1)
	}
	line, err := o.results.Next()
	o.at += int64(len(line))
	if err != nil {
		return o.body.Broken(err)
	}
	_, err = w.Write(line)
	return err
}

// nextPart moves on to the next part, if there is one.
func (o *outcomeReader) nextPart() (more bool, err error) {
	var ok bool
	if o.entry, err, ok = o.pull(); err != nil || !ok {
		return false, err
	}
	o.left, o.at = o.entry.Count, 0
	if o.failures, err = ledger.OpenErrors(o.ctx, o.dir, o.entry); err != nil {
		return false, err
	}
	if o.failure, err = o.failures.Next(); err != nil || o.entry.Bytes == 0 {
		return true, err
	}
	if o.body, err = ledger.OpenSummed(o.ctx, o.dir, ledger.ResultsKey(o.entry.Owner, o.entry.Entry)); err != nil {
		return false, err
	}
	o.results = ledger.NewLines(o.body, 64<<10)
	return true, nil
}

// endPart returns an error if the current part is not the one that was accepted, or holds more than its
// items.
func (o *outcomeReader) endPart() error {
	defer o.closePart()
	if o.failure != nil {
		return ledger.Unbalanced("the part with items %d to %d of those run again has too many errors", o.entry.First, o.entry.End()-1)
	}
	if o.body == nil {
		return nil
	}
	if _, err := o.results.WriteTo(io.Discard); err != nil {
		return o.body.Broken(err)
	}
	if o.at != o.entry.Bytes {
		return ledger.Unbalanced("the part with items %d to %d of those run again has too many results", o.entry.First, o.entry.End()-1)
	}
	return o.body.Verify(o.entry.Bytes, o.entry.Sum)
}

// end returns an error if there are more outcomes than next has returned.
func (o *outcomeReader) end() error {
	if err := o.endPart(); err != nil {
		return err
	}
	e, err, more := o.pull()
	if err == nil && (more || o.left > 0) {
		err = ledger.Unbalanced("more items were run again than had failed, from %d on", e.End()-o.left)
	}
	return err
}
