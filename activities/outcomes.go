package activities

import (
	"bytes"
	"cmp"
	"errors"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/stages"
	"github.com/stint-run/stint/job"
)

// invalidItem is an item that no handler gets.
type invalidItem struct {
	index   int // in the chunk
	fault   *calls.Fault
	settled *stages.Settled // by an earlier step; nil: fault is the item's error
	undone  *stages.Undone  // of which fault is; nil: the item is not in its format
}

// invalid is the item at index, because of err.
func invalid(index int, err error) invalidItem {
	if settled, ok := errors.AsType[*stages.Settled](err); ok {
		return invalidItem{index: index, settled: settled}
	}
	if undone, ok := errors.AsType[*stages.Undone](err); ok {
		return invalidItem{index: index, undone: undone, fault: &calls.Fault{Kind: job.KindError, Err: undone.Err}}
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
	if e.flattens() {
		e.entry.Lines += int64(bytes.Count(p.answer.Buf, []byte{'\n'}))
	}
	if e.passesOn() && e.form() == calls.Lines {
		e.entry.Dropped += blankLines(p.answer.Buf)
	}
	if len(b.invalid) > 0 || p.answer.Special > 0 || e.notesLines() {
		var err error
		if done, err = e.recordEach(p); err != nil {
			return err
		}
	} else {
		e.entry.OK += int64(done)
	}
	for done > 0 {
		n := e.untilCut(done)
		e.source.Done(b.chunk.Items[b.recorded : b.recorded+n])
		b.recorded, done = b.recorded+n, done-n
		e.entry.Count += int64(n)
		e.noteCut()
	}
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

// blankLines counts blank result lines of a filter: between two stages a blank line is not an item, of text either.
func blankLines(results []byte) (n int64) {
	for line := range bytes.Lines(results) {
		if line[0] <= ' ' && records.IsBlank(line[:len(line)-1]) {
			n++
		}
	}
	return n
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
	note := func(o calls.Span, undone *stages.Undone) {
		switch {
		case err != nil:
		case o.Fault != nil:
			err = e.fail(b, done, o, undone, at)
		case o.Drop:
			err = e.drop(b, done, at)
		default:
			e.entry.OK++
			err = e.noteLines(at, p.answer.Bytes(o))
		}
		done++
	}
	takeInvalid := func() {
		for len(b.invalid) > 0 && b.invalid[0].index == b.recorded+done {
			item := b.invalid[0]
			b.invalid = b.invalid[1:]
			if item.settled == nil {
				if item.undone != nil {
					e.carried.Items++
					e.carried.Failed++
				}
				note(calls.Span{Fault: item.fault, Tries: 1}, item.undone)
				e.live.Add(1, 1)
				continue
			}
			if err == nil {
				err = e.carry(b, done, item.settled, at)
			}
			done++
		}
	}
	p.answer.Each(func(o calls.Span) {
		takeInvalid()
		note(o, nil)
		at = base + int64(o.End)
	})
	takeInvalid()
	return done, err
}

// drop counts the item at index as dropped.
func (e *execution) drop(b *block, index int, at int64) error {
	e.entry.Dropped++
	e.entry.OK++
	switch {
	case e.in.KeepDrops && !e.passesOn():
		ordinal := e.in.Batch.First + e.entry.Count + int64(index)
		origin, err := e.source.Origin(e.ctx, ordinal, b.convert.Shape, &b.chunk.Items[b.recorded+index])
		if err != nil {
			return err
		}
		line, err := records.AppendLine(origin.Shape, nil, origin.Item)
		if err != nil { // the handler has not minded
			line = bytes.Clone(origin.Item.Raw)
		}
		return e.sink.Note(e.ctx, ledger.DroppedItem(at, line))
	case e.notesDrops():
		return e.sink.Note(e.ctx, ledger.DroppedLine(at))
	}
	return nil
}

// flattens reports whether each result is a list of results.
func (e *execution) flattens() bool { return e.in.Flatten && !e.passesOn() }

// flatten makes lines of the lists that are the portion's results.
func (e *execution) flatten(p *portion) {
	if e.flattens() {
		p.answer.Flatten(e.gathers() || e.acts.opts.Handler.Traits().Lists)
	}
}

// notesLines reports whether the part must note items whose results are not one line each.
func (e *execution) notesLines() bool { return e.flattens() && e.notesDrops() }

func (e *execution) noteLines(at int64, results []byte) error {
	if !e.notesLines() {
		return nil
	}
	n := int64(bytes.Count(results, []byte{'\n'}))
	if n == 1 {
		return nil
	}
	return e.sink.Note(e.ctx, ledger.LinesNote(at, n))
}

// fail records that an item has failed; undone says more if a pipeline has decided that.
func (e *execution) fail(b *block, index int, o calls.Span, undone *stages.Undone, at int64) error {
	failure := job.Failure{
		Item: e.in.Batch.First + e.entry.Count + int64(index),
		Kind: o.Fault.Kind, Error: o.Fault.Err, Attempts: int(o.Tries), Stage: e.stageName(),
	}
	if undone != nil {
		failure.Stage, failure.Partial = cmp.Or(undone.Stage, failure.Stage), undone.Partial
	}
	origin, err := e.source.Origin(e.ctx, failure.Item, b.convert.Shape, &b.chunk.Items[b.recorded+index])
	if err != nil {
		return err
	}
	failure.Source, failure.Offset = origin.Source, origin.Offset
	if err := e.noteFirst(failure); err != nil {
		return err
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

// noteFirst keeps the first error of the batch, unless what becomes of its item is not decided here.
func (e *execution) noteFirst(failure job.Failure) error {
	if e.firstError != nil || e.in.Stage != nil && e.in.Stage.Inner {
		return nil
	}
	original, err := e.source.Original(e.ctx, failure.Item)
	if err != nil {
		return err
	}
	e.firstError = ledger.FirstError(failure)
	e.firstError.Item = original
	return nil
}

// notesDrops reports whether the part must note items without a result.
func (e *execution) notesDrops() bool { return e.passesOn() || e.source.NotesDrops() }
