package stages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
)

// reader reads a part's lines, from the first item of a batch on.
type reader struct {
	part     wire.Part
	body     *ledger.SummedReader
	lines    *ledger.Lines
	failures *ledger.ErrorReader
	failure  *wire.ErrorLine // the next one; nil: none
	ordinal  int64           // of the next line
}

// readBuffer is how many bytes are read at once.
const readBuffer = 256 << 10

func openReader(ctx context.Context, dir store.Dir, batch wire.Batch, p wire.Part) (*reader, error) {
	e := wire.Entry{
		Batch: wire.Batch{First: p.First, Count: p.Count}, Part: p.Token,
		Bytes: p.Bytes, Sum: p.Sum, ErrBytes: p.ErrBytes, ErrSum: p.ErrSum,
	}
	body, err := open(ctx, dir, p, ledger.ResultsKey(p.Run, e))
	if err != nil {
		return nil, err
	}
	r := &reader{part: p, body: body, lines: ledger.NewLines(body, int(min(readBuffer, max(p.Bytes, 1<<10)))), ordinal: p.First}
	if p.ErrBytes > 0 {
		r.failures, err = openErrors(ctx, dir, p, e)
	}
	if err == nil {
		r.failure, err = r.failures.Next()
	}
	for err == nil && r.ordinal < batch.First {
		_, _, err = r.next()
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// open opens one of a part's two objects, that of its results.
func open(ctx context.Context, dir store.Dir, p wire.Part, key string) (*ledger.SummedReader, error) {
	if p.Inline != nil {
		return ledger.NewSummedReader(key, io.NopCloser(bytes.NewReader(p.Inline.Results))), nil
	}
	return ledger.OpenSummed(ctx, dir, key)
}

// openErrors opens the other one.
func openErrors(ctx context.Context, dir store.Dir, p wire.Part, e wire.Entry) (*ledger.ErrorReader, error) {
	if p.Inline != nil {
		return ledger.NewErrorReader(ledger.NewSummedReader(ledger.ErrorsKey(p.Run, e), io.NopCloser(bytes.NewReader(p.Inline.Errors))), e), nil
	}
	return ledger.OpenErrors(ctx, dir, ledger.OwnedEntry{Owner: p.Run, Entry: e})
}

// next returns the next item: its line, which is valid until the next call, or what has settled it.
func (r *reader) next() (line []byte, settled *Settled, err error) {
	line, err = r.lines.Next()
	if err != nil {
		return nil, nil, r.broken(err)
	}
	line = line[:len(line)-1]
	ordinal := r.ordinal
	r.ordinal++
	if !records.IsBlank(line) { // as in an input of jsonl, a blank line is no item
		return line, nil, nil
	}
	settled = &Settled{Decided: true}
	if r.failure != nil && r.failure.Failure.Item == ordinal {
		settled.Line = r.failure
		if r.failure, err = r.failures.Next(); err != nil {
			return nil, nil, err
		}
	}
	return nil, settled, nil
}

// verify reads the part to its end. It returns an error unless that is what was accepted.
func (r *reader) verify() error {
	for r.ordinal < r.part.First+r.part.Count {
		if _, _, err := r.next(); err != nil {
			return err
		}
	}
	more, err := io.Copy(io.Discard, r.lines)
	if err != nil {
		return r.broken(err)
	}
	if err := r.body.Verify(r.part.Bytes, r.part.Sum); err != nil {
		return err
	}
	if more > 0 {
		return r.broken(errors.New("it has more lines than items"))
	}
	if r.failure != nil {
		return r.broken(fmt.Errorf("it has an error of item %d, which has a result or is none of its items", r.failure.Failure.Item))
	}
	return nil
}

func (r *reader) broken(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = r.body.Verify(r.part.Bytes, r.part.Sum) // says what is missing
		if err == nil {
			err = errors.New("it has fewer lines than items")
		}
	}
	return r.body.Broken(err)
}

func (r *reader) close() {
	r.failures.Close()
	r.body.Close()
}
