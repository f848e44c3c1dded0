package ledger

import (
	"context"
	"io"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// Outcomes reads the outcomes of a part's items, one after the other. Its results and the lines of its errors are in the
// order of the items; a line comes before the result that begins where the line's would have begun, since no result is
// empty. In a job that flattens results, an item whose results are not one line has a line of its own that says so. The
// part must note items without a result.
type Outcomes struct {
	entry    OwnedEntry
	left     int64 // of its items
	at       int64 // of its results
	body     *SummedReader
	results  *Lines
	failures *ErrorReader
	failure  *wire.ErrorLine // the next one; nil: none
}

// OpenOutcomes opens the outcomes of an entry. The caller must close them.
func OpenOutcomes(ctx context.Context, dir store.Dir, e OwnedEntry) (*Outcomes, error) {
	o := &Outcomes{entry: e, left: e.Count}
	if err := o.open(ctx, dir); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

func (o *Outcomes) open(ctx context.Context, dir store.Dir) (err error) {
	if o.failures, err = OpenErrors(ctx, dir, o.entry); err != nil {
		return err
	}
	if o.failure, err = o.failures.Next(); err != nil || o.entry.Bytes == 0 {
		return err
	}
	if o.body, err = OpenSummed(ctx, dir, ResultsKey(o.entry.Owner, o.entry.Entry)); err != nil {
		return err
	}
	o.results = NewLines(o.body, 64<<10)
	return nil
}

// Left returns how many items Next has not come to. A nil Outcomes has none.
func (o *Outcomes) Left() int64 {
	if o == nil {
		return 0
	}
	return o.left
}

// Next returns the line of the next item, which has failed or was dropped. It returns nil for one that has a result:
// Result must follow. So it must, as often as the line says, for one that has several or none. It must not be called if
// no item is left.
func (o *Outcomes) Next() (*wire.ErrorLine, error) {
	o.left--
	line := o.failure
	if line == nil || line.At != o.at {
		return nil, nil
	}
	var err error
	o.failure, err = o.failures.Next()
	return line, err
}

// Result returns the next line of the results of the current item, with its end. It is valid until the next call.
func (o *Outcomes) Result() ([]byte, error) {
	if o.results == nil {
		return nil, o.unbalanced("too few results")
	}
	line, err := o.results.Next()
	o.at += int64(len(line))
	if err != nil {
		return nil, o.body.Broken(err)
	}
	return line, nil
}

// End returns an error if the part is not the one that was accepted, or holds more than its items, which Next must all
// have come to. A nil Outcomes is.
func (o *Outcomes) End() error {
	switch {
	case o == nil:
		return nil
	case o.failure != nil:
		return o.unbalanced("too many errors")
	case o.body == nil:
		return nil
	}
	if _, err := o.results.WriteTo(io.Discard); err != nil {
		return o.body.Broken(err)
	}
	if o.at != o.entry.Bytes {
		return o.unbalanced("too many results")
	}
	return o.body.Verify(o.entry.Bytes, o.entry.Sum)
}

func (o *Outcomes) unbalanced(what string) error {
	return Unbalanced("the part with items %d to %d has %s", o.entry.First, o.entry.End()-1, what)
}

// Close frees what was opened. It may be called again, and on nil.
func (o *Outcomes) Close() {
	if o == nil {
		return
	}
	o.failures.Close()
	if o.body != nil {
		o.body.Close()
	}
	o.failures, o.body, o.results = nil, nil, nil
}
