package outputs

import (
	"context"
	"errors"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// Part writes the outcomes of one execution of a batch to the job's store, and to the job's
// Joiner. One goroutine may use it.
type Part struct {
	results ledger.PartWriter
	errors  ledger.PartWriter

	join PartJoin
}

// NewPart returns the part of an entry of the run.
func NewPart(dir store.Dir, run string, e wire.Entry, joiner Joiner) *Part {
	p := &Part{join: joiner.Part(run, e.First)}
	p.results = ledger.PartWriter{Dir: dir, Key: ledger.ResultsKey(run, e), Bulk: p.join.Joins()} // usually joined from memory
	p.errors = ledger.PartWriter{Dir: dir, Key: ledger.ErrorsKey(run, e)}
	return p
}

// At returns the bytes of results so far.
func (p *Part) At() int64 { return p.results.Bytes }

// Results writes results, and gives lines to the Joiner.
func (p *Part) Results(ctx context.Context, lines []byte) (next []byte, err error) {
	if err := p.results.Write(context.WithoutCancel(ctx), lines); err != nil {
		return lines[:0], err
	}
	return p.join.Add(lines), nil
}

// Note writes a line of the part's errors.
func (p *Part) Note(ctx context.Context, line wire.ErrorLine) error {
	data, err := line.Encode()
	if err != nil {
		return err
	}
	return p.errors.Write(context.WithoutCancel(ctx), data)
}

// Commit makes the part durable, sets its sizes and checksums in the entry, and hands it over to the Joiner.
func (p *Part) Commit(entry *wire.Entry) error {
	if err := errors.Join(p.results.Commit(), p.errors.Commit()); err != nil {
		return err
	}
	entry.Bytes, entry.Sum = p.results.Bytes, p.results.Sum
	entry.ErrBytes, entry.ErrSum = p.errors.Bytes, p.errors.Sum
	p.join.Done(*entry)
	return nil
}

// Close discards the part, unless it is committed.
func (p *Part) Close() {
	p.results.Abort()
	p.errors.Abort()
	p.join.Close()
}
