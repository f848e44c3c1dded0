package stages

import (
	"bytes"
	"context"
	"errors"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
)

// Part is the sink of a stage that is not the last. Its results have one line for each item, empty if the item has none, so
// that the lines tell which items they belong to. One goroutine may use it.
type Part struct {
	results ledger.PartWriter
	errors  ledger.PartWriter

	at     int64   // bytes of results, without the empty lines
	gaps   []int64 // where empty lines belong among the results that are still to come, in their order
	padded []byte
}

// NewPart returns the part of an entry of the run.
func NewPart(dir store.Dir, run string, e ledger.Entry) *Part {
	return &Part{
		results: ledger.PartWriter{Dir: dir, Key: ledger.ResultsKey(run, e)},
		errors:  ledger.PartWriter{Dir: dir, Key: ledger.ErrorsKey(run, e)},
	}
}

// At is the bytes of results so far, without empty lines.
func (p *Part) At() int64 { return p.at }

// Results writes results, with empty lines between them. It keeps nothing of lines.
func (p *Part) Results(ctx context.Context, lines []byte) (next []byte, err error) {
	p.padded = p.padded[:0]
	left := lines
	for len(p.gaps) > 0 && p.gaps[0] < p.at+int64(len(left)) {
		n := p.gaps[0] - p.at
		p.padded = append(append(p.padded, left[:n]...), '\n')
		left, p.at, p.gaps = left[n:], p.gaps[0], p.gaps[1:]
	}
	p.at += int64(len(left))
	out := lines
	if len(p.padded) > 0 {
		p.padded = append(p.padded, left...)
		out = p.padded
	}
	return lines[:0], p.results.Write(context.WithoutCancel(ctx), out)
}

// Note takes a line about an item without a result. An error is kept for the last stage; that an item was dropped shows by the
// empty line.
func (p *Part) Note(ctx context.Context, line ledger.ErrorLine) error {
	p.gaps = append(p.gaps, line.At)
	if line.Dropped {
		return nil
	}
	data, err := line.Encode()
	if err != nil {
		return err
	}
	return p.errors.Write(context.WithoutCancel(ctx), data)
}

// Commit makes the part durable, and sets its sizes and checksums in the entry.
func (p *Part) Commit(entry *ledger.Entry) error {
	// What is left belongs after the last result.
	if err := p.results.Write(context.Background(), bytes.Repeat([]byte{'\n'}, len(p.gaps))); err != nil {
		return err
	}
	p.gaps = nil
	if err := errors.Join(p.results.Commit(), p.errors.Commit()); err != nil {
		return err
	}
	entry.Bytes, entry.Sum = p.results.Bytes, p.results.Sum
	entry.ErrBytes, entry.ErrSum = p.errors.Bytes, p.errors.Sum
	return nil
}

// Close discards the part, unless it is committed.
func (p *Part) Close() {
	p.results.Abort()
	p.errors.Abort()
}
