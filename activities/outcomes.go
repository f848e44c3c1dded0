package activities

import (
	"errors"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/stages"
	"github.com/stint-run/stint/job"
)

// invalidItem is an item that no handler gets.
type invalidItem struct {
	index   int // in the chunk
	fault   *calls.Fault
	settled *stages.Settled // by an earlier stage; nil: fault is the item's error
}

// invalid is the item at index, because of err.
func invalid(index int, err error) invalidItem {
	if settled, ok := errors.AsType[*stages.Settled](err); ok {
		return invalidItem{index: index, settled: settled}
	}
	return invalidItem{index: index, fault: calls.InvalidFault(err)}
}

// prepare turns the chunk, whose first item has that ordinal, into items of calls, and sets the invalid ones aside.
func (b *block) prepare(first int64) {
	b.items, b.invalid, b.lines = b.items[:0], b.invalid[:0], nil
	b.first, b.handed, b.recorded = first, 0, 0
	b.convert.Reset()
	at := 0
	for i := range b.chunk.Items {
		item := &b.chunk.Items[i]
		data, err := b.convert.Convert(item)
		if err != nil {
			b.invalid = append(b.invalid, invalid(i, err))
			continue
		}
		b.items = append(b.items, calls.Item{Ordinal: first + int64(i), Data: data, At: at})
		at += len(data) + 1
	}
	if b.convert.AsLines() && len(b.invalid) == 0 {
		b.lines = b.chunk.Lines()
	}
}

// record gives the sink the portion's outcomes so far: those of its next items, up to the first without one. Its
// answer is then empty.
func (e *execution) record(p *portion) error {
	b := p.block
	done := p.answer.Count
	p.recorded += done
	if len(b.invalid) > 0 || p.answer.Special > 0 {
		var err error
		if done, err = e.recordEach(p); err != nil {
			return err
		}
	} else {
		e.entry.OK += int64(done)
	}
	e.source.Done(b.chunk.Items[b.recorded : b.recorded+done])
	b.recorded += done
	e.entry.Count += int64(done)
	if len(p.answer.Buf) < writeAt {
		e.unwritten = append(e.unwritten, p.answer.Buf...)
		p.answer.Reset()
		if len(e.unwritten) < writeAt {
			return nil
		}
		return e.write()
	}
	err := e.write()
	if err == nil {
		p.answer.Buf, err = e.sink.Results(e.ctx, p.answer.Buf)
	}
	p.answer.Reset()
	return err
}

// write gives the sink the results that it does not have yet.
func (e *execution) write() (err error) {
	if len(e.unwritten) > 0 {
		e.unwritten, err = e.sink.Results(e.ctx, e.unwritten)
	}
	return err
}

// recordEach counts outcomes one by one and notes the errors among them. It returns how many of the chunk's next items
// have an outcome before the first without one.
func (e *execution) recordEach(p *portion) (done int, err error) {
	b := p.block
	base := e.sink.At() + int64(len(e.unwritten)) // where the first result begins
	at := base                                    // where the next result is, or would be
	note := func(o calls.Span) {
		switch {
		case err != nil:
		case o.Fault != nil:
			err = e.fail(b, done, o, at)
		case o.Drop:
			err = e.drop(at)
		default:
			e.entry.OK++
		}
		done++
	}
	takeInvalid := func() {
		for len(b.invalid) > 0 && b.invalid[0].index == b.recorded+done {
			item := b.invalid[0]
			b.invalid = b.invalid[1:]
			if item.settled == nil {
				note(calls.Span{Fault: item.fault, Tries: 1})
				e.live.Add(1, 1)
				continue
			}
			if err == nil {
				err = e.carry(item.settled, at)
			}
			done++
		}
	}
	p.answer.Each(func(o calls.Span) {
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
	if !e.notesDrops() {
		return nil
	}
	return e.sink.Note(e.ctx, ledger.DroppedLine(at))
}

func (e *execution) fail(b *block, index int, o calls.Span, at int64) error {
	failure := job.Failure{
		Item: e.in.Batch.First + e.entry.Count + int64(index),
		Kind: o.Fault.Kind, Error: o.Fault.Err, Attempts: int(o.Tries),
	}
	if e.in.Stage != nil {
		failure.Stage = e.in.Stage.Name
	}
	origin, err := e.source.Origin(e.ctx, failure.Item, b.convert.Shape, &b.chunk.Items[b.recorded+index])
	if err != nil {
		return err
	}
	failure.Source, failure.Offset = origin.Source, origin.Offset
	if e.firstError == nil {
		original, err := e.source.Original(e.ctx, failure.Item)
		if err != nil {
			return err
		}
		e.firstError = ledger.FirstError(failure)
		e.firstError.Item = original
	}
	e.entry.Failed++
	switch {
	case e.in.OnError != job.OnErrorDrop:
	case !e.notesDrops():
		return nil
	default:
		return e.sink.Note(e.ctx, ledger.SilentLine(at, failure))
	}
	return e.sink.Note(e.ctx, ledger.NewErrorLine(at, failure, origin.Shape, origin.Item))
}

// notesDrops reports whether the part must note items without a result.
func (e *execution) notesDrops() bool { return e.passesOn() || e.source.NotesDrops() }
