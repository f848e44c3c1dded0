package activities

import (
	"context"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/job"
)

type invalidItem struct {
	index int // in the chunk
	fault *Fault
}

// prepare turns the chunk into the items of a call, and sets the invalid ones aside.
func (e *execution) prepare() {
	e.items, e.data, e.invalid = e.items[:0], e.data[:0], e.invalid[:0]
	e.answer.reset()
	form := e.acts.opts.Handler.Traits().Form
	first := e.in.Batch.First + e.entry.Count
	at := 0
	for i := range e.chunk.Items {
		item := &e.chunk.Items[i]
		data, err := e.convert(item, form)
		if err != nil {
			e.invalid = append(e.invalid, invalidItem{i, invalidFault(err)})
			continue
		}
		e.items = append(e.items, Item{Ordinal: first + int64(i), Data: data, at: at})
		at += len(data) + 1
	}
	e.caller.block = nil
	if form == Lines && e.source.Shape.Format != records.CSV && len(e.invalid) == 0 {
		e.caller.block = e.chunk.Lines()
	}
}

// convert gives an item the form that the handler wants.
func (e *execution) convert(item *records.Item, form Form) ([]byte, error) {
	if item.Err != nil {
		return nil, item.Err
	}
	shape := &e.source.Shape
	switch {
	case form == CheckedJSON && shape.Format == records.JSONL:
		return item.Raw, shape.CheckLine(item)
	case form == JSONValues && shape.Format == records.JSONL && utf8.Valid(item.Raw):
		return item.Raw, nil // the handler's own decoder checks the rest
	case form == Lines && shape.Format != records.CSV:
		return item.Raw, shape.CheckLine(item)
	}
	start := len(e.data)
	var err error
	if form == Lines {
		e.data, err = shape.AppendLine(e.data, item)
	} else {
		e.data, err = shape.AppendJSON(e.data, item)
	}
	if err != nil {
		e.data = e.data[:start]
		return nil, err
	}
	return e.data[start:len(e.data):len(e.data)], nil
}

// record writes the outcomes of the chunk's first items, up to the first without one.
func (e *execution) record() error {
	base := e.results.bytes
	if err := e.results.write(context.WithoutCancel(e.ctx), e.answer.buf); err != nil {
		return err
	}
	done := len(e.chunk.Items)
	if len(e.invalid) > 0 || e.answer.special > 0 || e.answer.count < len(e.items) {
		var err error
		if done, err = e.recordEach(base); err != nil {
			return err
		}
	} else {
		e.entry.OK += int64(done)
	}
	if done > 0 {
		last := &e.chunk.Items[done-1]
		e.length = min(last.Offset+last.Size+1, e.in.Batch.Length)
	}
	e.entry.Count += int64(done)
	e.hold()
	return nil
}

// recordEach counts outcomes one by one and writes the errors among them. It returns how many of
// the chunk's items have an outcome before the first without one.
func (e *execution) recordEach(base int64) (done int, err error) {
	invalid := e.invalid
	at := base // where the next result is, or would be
	note := func(o outcome) {
		switch {
		case err != nil:
		case o.fault != nil:
			err = e.fail(done, o, at)
		case o.drop:
			e.entry.Dropped++
			e.entry.OK++
			err = e.noteDrop(at)
		default:
			e.entry.OK++
		}
		done++
	}
	takeInvalid := func() {
		for len(invalid) > 0 && invalid[0].index == done {
			fault := invalid[0].fault
			invalid = invalid[1:]
			note(outcome{fault: fault, tries: 1})
		}
	}
	e.answer.each(func(o outcome) {
		takeInvalid()
		note(o)
		at = base + int64(o.end)
	})
	takeInvalid()
	return done, err
}

func (e *execution) fail(index int, o outcome, at int64) error {
	item := &e.chunk.Items[index]
	failure := job.Failure{
		Item:     e.in.Batch.First + e.entry.Count + int64(index),
		Source:   e.source.URL,
		Offset:   e.in.Batch.Offset + item.Offset,
		Input:    failureInput(&e.source.Shape, item),
		Kind:     o.fault.Kind,
		Error:    o.fault.Err,
		Attempts: int(o.tries),
	}
	if e.firstError == nil {
		e.firstError = firstErrorOf(failure)
		if err := e.nameOriginal(e.firstError); err != nil {
			return err
		}
	}
	e.entry.Failed++
	if e.in.OnError == job.OnErrorDrop {
		return nil
	}
	return e.note(failureLine{At: at, Failure: failure, again: runAgain(&e.source.Shape, item, failure.Input)})
}

// note adds a line to the part's errors.
func (e *execution) note(line failureLine) error {
	data, err := line.encode()
	if err != nil {
		return err
	}
	return e.errors.write(context.WithoutCancel(e.ctx), data)
}

// maxFirstError keeps the one error message that travels through history short.
const maxFirstError = 500

func firstErrorOf(f job.Failure) *job.FirstError {
	short := f.Error
	short.Message, short.Stack = cutText(short.Message, maxFirstError), ""
	return &job.FirstError{Item: f.Item, Kind: f.Kind, Error: short}
}

func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "…"
}
