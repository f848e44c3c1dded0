package activities

import (
	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/stages"
	"github.com/stint-run/stint/job"
)

// passesOn reports whether the results are for another stage.
func (e *execution) passesOn() bool { return e.in.Stage != nil && !e.in.Stage.Last }

// carry records what an earlier stage has made of the item at index, which is the next. at is where its result would be.
func (e *execution) carry(b *block, index int, s *stages.Settled, at int64) error {
	if s.Line == nil {
		e.settled.OK++
		e.settled.Dropped++
		return e.drop(b, index, at)
	}
	e.settled.Failed++
	e.entry.Failed++
	if !s.Line.IsRecord() && !e.notesDrops() {
		return nil
	}
	line := *s.Line
	line.At = at
	return e.sink.Note(e.ctx, line)
}

// decided counts the items whose outcome has been decided here: not in an earlier stage of this run, and not in a later one. What
// an earlier run has left between two stages this run's report does not know yet.
func (e *execution) decided() job.Totals {
	t := job.Totals{OK: e.entry.OK, Failed: e.entry.Failed, Dropped: e.entry.Dropped, Lines: e.entry.Lines}
	if from := e.in.Batch.From; from != nil && from.Run == e.in.Ref.Run {
		t.OK -= e.settled.OK
		t.Failed -= e.settled.Failed
		t.Dropped -= e.settled.Dropped
		t.Between -= e.entry.Count - e.settled.OK - e.settled.Failed
	}
	if e.passesOn() {
		t.Between += t.OK - t.Dropped
		t.OK = t.Dropped
	}
	return t
}

// parcel is the part for the next stage: nil if nothing is done.
func (e *execution) parcel() *protocol.Parcel {
	if e.entry.Count == 0 {
		return nil
	}
	p := &protocol.Parcel{
		Stage: 1, Run: e.in.Ref.Run, Part: e.entry.Part, First: e.entry.First, Count: e.entry.Count, Format: string(e.passedFormat()),
		Bytes: e.entry.Bytes, Sum: e.entry.Sum, ErrBytes: e.entry.ErrBytes, ErrSum: e.entry.ErrSum,
	}
	if from := e.in.Batch.From; from != nil {
		p.Stage = from.Stage + 1
	}
	return p
}

// passedFormat is the format of the results: what handlers return is JSON, but a filter that gets text answers with text.
func (e *execution) passedFormat() records.Format {
	if e.acts.opts.Handler.Traits().Form == calls.Lines && e.source.Shape().Format == records.Text {
		return records.Text
	}
	return records.JSONL
}
