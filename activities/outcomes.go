package activities

import (
	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/job"
)

type invalidItem struct {
	index int // in the chunk
	fault *calls.Fault
}

// prepare turns the chunk into the items of a call, and sets the invalid ones aside.
func (e *execution) prepare() {
	e.items, e.invalid = e.items[:0], e.invalid[:0]
	e.recorded = 0
	e.answer.Reset()
	e.convert.Reset()
	first := e.in.Batch.First + e.entry.Count
	at := 0
	for i := range e.chunk.Items {
		item := &e.chunk.Items[i]
		data, err := e.convert.Convert(item)
		if err != nil {
			e.invalid = append(e.invalid, invalidItem{i, calls.InvalidFault(err)})
			continue
		}
		e.items = append(e.items, calls.Item{Ordinal: first + int64(i), Data: data, At: at})
		at += len(data) + 1
	}
	e.caller.Block = nil
	if e.convert.AsLines() && len(e.invalid) == 0 {
		e.caller.Block = e.chunk.Lines()
	}
}

// record gives the sink the outcomes so far: of the chunk's next items, up to the first without one. The
// answer is then empty.
func (e *execution) record() error {
	done := e.answer.Count
	if len(e.invalid) > 0 || e.answer.Special > 0 {
		var err error
		if done, err = e.recordEach(e.sink.At()); err != nil {
			return err
		}
	} else {
		e.entry.OK += int64(done)
	}
	e.source.Done(e.chunk.Items[e.recorded : e.recorded+done])
	e.recorded += done
	e.entry.Count += int64(done)
	var err error
	e.answer.Buf, err = e.sink.Results(e.ctx, e.answer.Buf)
	e.answer.Reset()
	return err
}

// recordEach counts outcomes one by one and notes the errors among them; base is where the first result
// begins. It returns how many of
// the chunk's next items have an outcome before the first without one.
func (e *execution) recordEach(base int64) (done int, err error) {
	at := base // where the next result is, or would be
	note := func(o calls.Span) {
		switch {
		case err != nil:
		case o.Fault != nil:
			err = e.fail(done, o, at)
		case o.Drop:
			err = e.drop(at)
		default:
			e.entry.OK++
		}
		done++
	}
	takeInvalid := func() {
		for len(e.invalid) > 0 && e.invalid[0].index == e.recorded+done {
			fault := e.invalid[0].fault
			e.invalid = e.invalid[1:]
			note(calls.Span{Fault: fault, Tries: 1})
		}
	}
	e.answer.Each(func(o calls.Span) {
		takeInvalid()
		note(o)
		at = base + int64(o.End)
	})
	takeInvalid()
	return done, err
}

func (e *execution) drop(at int64) error {
	e.entry.Dropped++
	e.entry.OK++
	if !e.source.NotesDrops() {
		return nil
	}
	return e.sink.Note(e.ctx, ledger.DroppedLine(at))
}

func (e *execution) fail(index int, o calls.Span, at int64) error {
	item := &e.chunk.Items[e.recorded+index]
	failure := job.Failure{
		Item: e.in.Batch.First + e.entry.Count + int64(index),
		Kind: o.Fault.Kind, Error: o.Fault.Err, Attempts: int(o.Tries),
	}
	failure.Source, failure.Offset = e.source.Locate(item)
	if e.firstError == nil {
		original, err := e.source.Original(e.ctx, failure.Item)
		if err != nil {
			return err
		}
		e.firstError = ledger.FirstError(failure)
		e.firstError.Item = original
	}
	e.entry.Failed++
	if e.in.OnError == job.OnErrorDrop {
		return nil
	}
	return e.sink.Note(e.ctx, ledger.NewErrorLine(at, failure, e.source.Shape(), item))
}
