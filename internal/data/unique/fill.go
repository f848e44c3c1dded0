package unique

import (
	"context"
	"fmt"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/reuse"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Filling is a run whose items are all done, but for twins.
type Filling struct {
	Ref   wire.Ref // its sources are those of the run
	Dir   store.Dir
	Links ledger.Links // of what it has accepted
	Items int64
	// Flatten: the results of an item are any number of lines.
	Flatten bool
	// Notes: the results are kept for a later run.
	Notes bool
	// Scratch is the directory of temporary files; empty: where such files usually lie.
	Scratch string
}

// Fill gives twins the outcomes of their firsts. Parts that have twins it writes anew, and it returns the heads of
// manifests of all parts. What it writes, keys included, depends only on what the run has accepted: it can be repeated,
// and two executions at once write the same.
func (f Filling) Fill(ctx context.Context) (heads []string, err error) {
	w := &filler{Filling: f, ctx: ctx, to: ledger.Remade{Dir: f.Dir, Ref: f.Ref, Key: f.Ref.FilledManifestKey}}
	w.firsts = &firsts{Seen: reuse.NewSeen(f.Items)}
	w.kept = kept{firsts: w.firsts, starts: scratch{dir: f.Scratch}, outcomes: scratch{dir: f.Scratch}}
	defer w.kept.close()
	if err := ledger.Entries(ctx, f.Dir, f.Links, w.findFirsts); err != nil {
		return nil, err
	}
	if err := ledger.Entries(ctx, f.Dir, f.Links, w.entry); err != nil {
		return nil, err
	}
	return w.to.Heads, w.to.Flush(ctx)
}

// filler fills in the outcomes of a run.
type filler struct {
	Filling
	ctx    context.Context
	firsts *firsts
	kept   kept
	to     ledger.Remade
}

// findFirsts finds out which items the twins of an entry wait for.
func (f *filler) findFirsts(e ledger.OwnedEntry) error {
	if e.Waiting == 0 {
		return nil
	}
	return ledger.EachErrorLine(f.ctx, f.Dir, e, func(line wire.ErrorLine) error {
		if line.Twin == nil {
			return nil
		}
		if first := *line.Twin; first < 0 || first >= line.Failure.Item || line.Failure.Item >= f.Items {
			return ledger.Permanent(job.ErrorCorrupt, fmt.Errorf("item %d waits for item %d, of %d", line.Failure.Item, first, f.Items))
		}
		f.firsts.Add(*line.Twin, 1)
		return nil
	})
}

// entry takes an entry into the filled state.
func (f *filler) entry(e ledger.OwnedEntry) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	if e.Waiting == 0 && !f.firsts.any(e.First, e.End()) {
		return f.to.Pass(f.ctx, e)
	}
	p, err := f.open(e)
	if err != nil {
		return err
	}
	defer p.close()
	for ordinal := e.First; ordinal < e.End(); ordinal++ {
		o, err := p.next()
		if err == nil && f.firsts.Has(ordinal) {
			err = ledger.StoreError(job.ErrorOutput, f.kept.add(o))
		}
		if err != nil {
			return err
		}
	}
	if err := p.in.End(); err != nil {
		return err
	}
	if e.Waiting == 0 {
		return f.to.Pass(f.ctx, e)
	}
	if err := p.commit(); err != nil {
		return err
	}
	return f.to.Add(f.ctx, p.entry)
}

// part is a part whose outcomes are read, and written anew if it has twins.
type part struct {
	*filler
	in    *ledger.Outcomes
	notes *reuse.Refill // nil: nobody wants them

	writes          bool
	entry           wire.Entry // of the new part
	results, errors ledger.PartWriter
	buf             []byte // a result of several lines
}

// filled is what the token of a part gets that is written anew.
const filled = "f"

func (f *filler) open(e ledger.OwnedEntry) (p *part, err error) {
	p = &part{filler: f, entry: e.Entry, writes: e.Waiting > 0}
	p.entry.Run, p.entry.Part = "", e.Part+filled
	p.entry.Equal, p.entry.Waiting = e.Equal+e.Waiting, 0
	p.results = ledger.PartWriter{Dir: f.Dir, Key: ledger.ResultsKey(f.Ref.Run, p.entry)}
	p.errors = ledger.PartWriter{Dir: f.Dir, Key: ledger.ErrorsKey(f.Ref.Run, p.entry)}
	if p.in, err = ledger.OpenOutcomes(f.ctx, f.Dir, e); err != nil || !f.Notes {
		return p, err
	}
	var out *reuse.Notes
	if p.writes {
		out = reuse.NewNotes(f.Dir, f.Ref.Run, p.entry)
	}
	if p.notes, err = reuse.OpenRefill(f.ctx, f.Dir, e, out); err != nil {
		p.close()
		return nil, ledger.StoreError(job.ErrorOutput, err)
	}
	return p, nil
}

// next returns the outcome of the next item, which is valid until the next call, and writes it.
func (p *part) next() (o outcome, err error) {
	line, err := p.in.Next()
	switch {
	case err != nil:
		return o, err
	case line == nil:
		o, err = p.result(1)
	case line.Lines != nil:
		o, err = p.result(*line.Lines)
	case line.Twin != nil:
		return p.twin(line)
	default:
		return outcome{line: line}, p.note(*line)
	}
	if err == nil && p.notes != nil {
		o.again, err = p.notes.Result(o.result)
	}
	if err != nil {
		return o, err
	}
	return o, p.write(o)
}

// result reads a result of so many lines.
func (p *part) result(lines int64) (o outcome, err error) {
	o.lines = lines
	if lines == 1 {
		o.result, err = p.in.Result()
		return o, err
	}
	p.buf = p.buf[:0]
	for range lines {
		line, err := p.in.Result()
		if err != nil {
			return o, err
		}
		p.buf = append(p.buf, line...)
	}
	o.result = p.buf
	return o, nil
}

// write writes a result.
func (p *part) write(o outcome) error {
	if !p.writes {
		return nil
	}
	if p.Flatten && o.lines != 1 {
		if err := p.note(ledger.LinesNote(0, o.lines)); err != nil {
			return err
		}
	}
	return p.results.Write(p.ctx, o.result)
}

// note writes a line about an item whose result would be next.
func (p *part) note(line wire.ErrorLine) error {
	if !p.writes {
		return nil
	}
	line.At = p.results.Bytes
	data, err := line.Encode()
	if err != nil {
		return err
	}
	return p.errors.Write(p.ctx, data)
}

// twin gives a twin the outcome of its first.
func (p *part) twin(line *wire.ErrorLine) (outcome, error) {
	o, err := p.kept.of(*line.Twin)
	if err != nil {
		return o, ledger.StoreError(job.ErrorOutput, err)
	}
	digest, known := reuse.DigestOf(line.Bytes)
	known = known && p.notes != nil
	if o.line == nil {
		p.entry.Dropped--
		if p.Flatten {
			p.entry.Lines += o.lines
		}
		if !o.again {
			digest = reuse.Digest{}
		}
		if known {
			err = p.notes.Insert(digest, o.result)
		}
		if err != nil {
			return o, err
		}
		return o, p.write(o)
	}
	own := *o.line
	if own.IsRecord() || own.Silent {
		p.entry.Dropped--
		p.entry.OK--
		p.entry.Failed++
		own.Failure.Item, own.Failure.Source, own.Failure.Offset = line.Failure.Item, line.Failure.Source, line.Failure.Offset
	}
	if known {
		err = p.notes.None(digest)
	}
	if err != nil {
		return o, err
	}
	return outcome{line: &own}, p.note(own)
}

// commit makes the new part durable.
func (p *part) commit() error {
	for _, w := range []*ledger.PartWriter{&p.results, &p.errors} {
		if err := w.Commit(); err != nil {
			return err
		}
	}
	e := &p.entry
	e.Bytes, e.Sum, e.ErrBytes, e.ErrSum = p.results.Bytes, p.results.Sum, p.errors.Bytes, p.errors.Sum
	if p.notes == nil {
		return nil
	}
	return ledger.StoreError(job.ErrorOutput, p.notes.Commit())
}

func (p *part) close() {
	p.in.Close()
	p.results.Abort()
	p.errors.Abort()
	if p.notes != nil {
		p.notes.Close()
	}
}
