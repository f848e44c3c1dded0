package outputs

import (
	"context"
	"errors"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// Part writes the outcomes of one execution of a batch to the job's store, and offers them to the
// job's Joiner. One goroutine may use it.
type Part struct {
	results ledger.PartWriter
	errors  ledger.PartWriter

	joins    PartJoiner
	held     [][]byte // all results so far, for joins
	overheld bool     // joins has no room for all of them
}

// NewPart returns the part of an entry of the run.
func NewPart(dir store.Dir, run string, e wire.Entry, joiner Joiner) *Part {
	p := &Part{joins: joiner.Parts(run)}
	p.results = ledger.PartWriter{Dir: dir, Key: ledger.ResultsKey(run, e), Bulk: p.joins.Joins()} // usually joined from memory
	p.errors = ledger.PartWriter{Dir: dir, Key: ledger.ErrorsKey(run, e)}
	return p
}

// At returns the bytes of results so far.
func (p *Part) At() int64 { return p.results.Bytes }

// Results writes results, and keeps lines for the Joiner if that has room for the whole part.
func (p *Part) Results(ctx context.Context, lines []byte) (next []byte, err error) {
	if err := p.results.Write(context.WithoutCancel(ctx), lines); err != nil {
		return lines[:0], err
	}
	if len(lines) == 0 || p.overheld {
		return lines[:0], nil
	}
	next, held := p.joins.Hold(lines)
	if !held {
		p.overheld = true
		p.joins.Release(p.takeHeld())
		return lines[:0], nil
	}
	p.held = append(p.held, lines)
	return next, nil
}

// Note writes a line of the part's errors.
func (p *Part) Note(ctx context.Context, line wire.ErrorLine) error {
	data, err := line.Encode()
	if err != nil {
		return err
	}
	return p.errors.Write(context.WithoutCancel(ctx), data)
}

// Commit makes the part durable, sets its sizes and checksums in the entry, and offers it to the Joiner.
func (p *Part) Commit(entry *wire.Entry) error {
	if err := errors.Join(p.results.Commit(), p.errors.Commit()); err != nil {
		return err
	}
	entry.Bytes, entry.Sum = p.results.Bytes, p.results.Sum
	entry.ErrBytes, entry.ErrSum = p.errors.Bytes, p.errors.Sum
	p.joins.Offer(*entry, p.takeHeld())
	return nil
}

// Close discards the part, unless it is committed.
func (p *Part) Close() {
	p.results.Abort()
	p.errors.Abort()
	p.joins.Release(p.takeHeld())
}

func (p *Part) takeHeld() [][]byte {
	held := p.held
	p.held = nil
	return held
}
