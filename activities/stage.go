package activities

import (
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/stages"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// form returns the form of the items that the handler wants.
func (e *execution) form() calls.Form {
	if e.in.Gathers() {
		return calls.Lines
	}
	return e.acts.opts.Handler.Traits().Form
}

// shape returns the shape by which items are checked. What a filter has written for another one, or for the output, is
// not.
func (e *execution) shape() *wire.Shape {
	shape := e.source.Shape()
	if e.in.Batch.From == nil || e.form() != calls.Lines {
		return shape
	}
	return &wire.Shape{Format: records.Text, MaxItem: shape.MaxItem}
}

// countCarried counts an item that no handler was meant to get here.
func (e *execution) countCarried(o *records.Outcome, failed bool) {
	e.carried.Items++
	if failed {
		e.carried.Failed++
	}
	switch {
	case !o.Counted:
	case failed:
		e.settled.Failed++
	default:
		e.settled.OK++
		e.settled.Dropped++
	}
}

// carry records a failure of an earlier step. at is where the item's result would be.
func (e *execution) carry(o *records.Outcome, at int64) error {
	if !o.Counted {
		if err := e.noteFirst(*o.Failure); err != nil {
			return err
		}
	}
	e.entry.Failed++
	if !o.Line.IsRecord() && !e.notesDrops() {
		return nil
	}
	line := *o.Line
	line.At = at
	return e.sink.Note(e.ctx, line)
}

// decided counts the items whose outcome has been decided here: not in an earlier step of this run, and not in a later
// one. What an earlier run has left between two steps this run's report does not know yet.
func (e *execution) decided() job.Totals {
	if e.in.Stage != nil && e.in.Stage.Inner {
		return job.Totals{}
	}
	t := job.Totals{OK: e.entry.OK, Failed: e.entry.Failed, Dropped: e.entry.Dropped - e.entry.Waiting, Lines: e.entry.Lines, Skipped: e.skipped, Reused: e.entry.Reused, Changed: e.entry.Changed, Again: e.entry.Again, Equal: e.entry.Waiting}
	if e.in.PassesOn() {
		t.Skipped = 0
		t.Between = t.OK - t.Dropped
		t.OK = t.Dropped
	}
	if from := e.in.Batch.From; from != nil && from.Run == e.in.Ref.Run {
		t.OK -= e.settled.OK
		t.Failed -= e.settled.Failed
		t.Dropped -= e.settled.Dropped
		t.Between -= e.entry.Count - e.settled.OK - e.settled.Failed
	}
	return t
}

// cuts are places at which a batch can be split.
type cuts struct {
	apart int64 // items between two of them at least; 0: nobody wants cuts
	next  int64 // items that are done at the next one
	found []wire.Cut
}

func newCuts(in *wire.ProcessInput) cuts {
	if in.Stage == nil || in.Stage.Cut == 0 {
		return cuts{}
	}
	apart := max(in.Stage.Cut, in.Batch.Count/wire.MaxCuts+1)
	return cuts{apart: apart, next: apart}
}

// until returns how many of the next items, at most so many, lie before the next cut. done are done.
func (c *cuts) until(items int, done int64) int {
	if c.apart == 0 {
		return items
	}
	return int(min(int64(items), max(1, c.next-done)))
}

// note notes that the batch can be split where its source is, if it has been long enough since the last cut.
func (c *cuts) note(from source, done int64) {
	if c.apart == 0 || done < c.next {
		return
	}
	c.next = done + c.apart
	if part, rest := from.Split(); rest != nil && part.Length > 0 {
		c.found = append(c.found, wire.Cut{Item: part.End(), Offset: part.Offset + part.Length})
	}
}

// written returns the part for later steps: nil if nothing is done.
func (e *execution) written() *wire.Part {
	if e.entry.Count == 0 {
		return nil
	}
	return &wire.Part{
		Number: e.in.Stage.Writes, Run: e.in.Ref.Run, Token: e.entry.Part, First: e.entry.First, Count: e.entry.Count, Format: string(e.passedFormat()),
		Bytes: e.entry.Bytes, Sum: e.entry.Sum, ErrBytes: e.entry.ErrBytes, ErrSum: e.entry.ErrSum,
		Inline: e.sink.(*stages.Part).Inline(),
	}
}

// passedFormat returns the format of the results: what handlers return is JSON, but a filter that gets text answers
// with text.
func (e *execution) passedFormat() wire.Format {
	if e.form() == calls.Lines && records.TextLines(e.source.Shape()) {
		return records.Text
	}
	return records.JSONL
}
