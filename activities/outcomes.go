package activities

import (
	"bytes"
	"cmp"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// prepare turns the chunk, whose first item has that ordinal, into items of calls. Some have their outcomes before.
func (e *execution) prepare(b *block, first int64) {
	b.items, b.lines = b.items[:0], nil
	b.handed, b.recorded = 0, 0
	b.convert.Form, b.convert.Shape = e.form(), e.shape()
	b.convert.Reset()
	at, known := 0, false
	for i := range b.chunk.Items {
		item := calls.Item{Ordinal: first + int64(i), At: at, Outcome: b.chunk.Items[i].Outcome}
		if item.Outcome == nil {
			var err error
			item.Data, err = b.convert.Convert(&b.chunk.Items[i])
			item.Outcome = e.beforehand(item.Data, err)
		}
		known = known || item.Outcome != nil
		b.items = append(b.items, item)
		at += len(item.Data) + 1
	}
	b.toCall = b.items
	if known {
		b.without = withoutOutcome(b.without[:0], b.items)
		b.toCall = b.without
	} else if b.convert.AsLines() {
		b.lines = b.chunk.Lines()
	}
}

// beforehand returns the outcome of an item before any call; nil: a handler gets it. err is why it is not in its
// format.
func (e *execution) beforehand(data []byte, err error) *records.Outcome {
	gathers := e.in.Gathers()
	switch v := e.in.Verdict; {
	case err != nil:
		f := calls.InvalidFault(err)
		return &records.Outcome{Failure: &job.Failure{Kind: f.Kind, Error: f.Err, Attempts: 1}, Carried: gathers}
	case gathers:
		return &records.Outcome{Value: data, Carried: true}
	case v != nil:
		return &records.Outcome{Failure: &job.Failure{Kind: v.Kind, Error: v.Error, Attempts: v.Attempts}}
	}
	return nil
}

// record gives the sink the assignment's outcomes so far: those of its next items, up to the first without one. Its
// answer is then empty.
func (e *execution) record(p *assignment) error {
	b := p.block
	done := p.answer.Count
	p.recorded += done
	if e.in.Flattens() {
		e.entry.Lines += int64(bytes.Count(p.answer.Buf, []byte{'\n'}))
	}
	if e.in.PassesOn() && e.form() == calls.Lines {
		e.entry.Dropped += blankLines(p.answer.Buf)
	}
	if p.answer.Special > 0 || e.notesLines() || e.reuse != nil {
		if err := e.recordEach(p); err != nil {
			return err
		}
	} else {
		e.entry.OK += int64(done)
	}
	for done > 0 {
		n := e.cuts.until(done, e.entry.Count)
		e.source.Done(b.chunk.Items[b.recorded : b.recorded+n])
		b.recorded, done = b.recorded+n, done-n
		e.entry.Count += int64(n)
		e.cuts.note(e.source, e.entry.Count)
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
func blankLines(results []byte) int64 {
	var b blanks
	b.count(results)
	return b.lines
}

// blanks counts blank lines that come in pieces.
type blanks struct {
	lines  int64
	filled bool // the line that has not ended is not blank
}

func (b *blanks) count(piece []byte) {
	for line := range bytes.Lines(piece) {
		text, ended := bytes.CutSuffix(line, newline)
		b.filled = b.filled || len(text) > 0 && (text[0] > ' ' || !records.IsBlank(text))
		if ended && !b.filled {
			b.lines++
		}
		b.filled = b.filled && !ended
	}
}

// write gives the sink the results that it does not have yet.
func (e *execution) write() (err error) {
	if len(e.unwritten) > 0 {
		e.unwritten, err = e.sink.Results(e.ctx, e.unwritten)
	}
	return err
}

// recordEach counts the assignment's outcomes one by one and notes the errors among them.
func (e *execution) recordEach(p *assignment) (err error) {
	base := e.sink.At() + int64(len(e.unwritten)) // where the first result begins
	at := base                                    // where the next result is, or would be
	index := 0
	p.answer.Each(func(o calls.Span) {
		if err == nil {
			err = e.recordOne(p, index, o, at)
		}
		if err == nil && e.reuse != nil {
			err = e.noteReuse(p, index, o)
		}
		index++
		at = base + int64(o.End)
	})
	return err
}

// recordOne counts the outcome of the item at index, counted from the first that is not recorded. at is where its
// result is, or would be.
func (e *execution) recordOne(p *assignment, index int, o calls.Span, at int64) error {
	known := o.Known
	if known != nil && known.Carried {
		e.countCarried(known, o.Fault != nil)
	}
	switch {
	case known != nil && known.Line != nil && known.Line.HasOutcome():
		return e.passOutcome(*known.Line, at)
	case known != nil && known.Line != nil:
		return e.carry(known, at)
	case o.Fault != nil:
		b := p.block
		return e.fail(e.in.Batch.First+e.entry.Count+int64(index), b.convert.Shape, &b.chunk.Items[b.recorded+index], o, at)
	case o.Drop:
		return e.drop(p.block, index, at)
	}
	if o.Skipped {
		e.skipped++
	}
	e.entry.OK++
	return e.noteLines(at, p.answer.Bytes(o))
}

// drop counts the item at index as dropped.
func (e *execution) drop(b *block, index int, at int64) error {
	e.entry.Dropped++
	e.entry.OK++
	switch {
	case e.in.KeepDrops && !e.in.PassesOn():
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

// complete makes the assignment's outcomes what is recorded: with those that items had before their calls, and with
// lists as lines.
func (e *execution) complete(p *assignment) {
	if len(p.toCall) < len(p.items) {
		p.answer.Fill(p.items[p.recorded:])
	}
	if e.in.Flattens() {
		p.answer.Flatten(e.in.Gathers() || e.acts.opts.Handler.Traits().Lists)
	}
}

// notesLines reports whether the part must note items whose results are not one line each.
func (e *execution) notesLines() bool { return e.in.Flattens() && e.notesDrops() }

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

// fail records that an item has failed. shape is the item's.
func (e *execution) fail(ordinal int64, shape *wire.Shape, item *records.Item, o calls.Span, at int64) error {
	failure := job.Failure{
		Item: ordinal,
		Kind: o.Fault.Kind, Error: o.Fault.Err, Attempts: int(o.Tries), Stage: e.in.StageName(),
	}
	if o.Known != nil && o.Known.Failure != nil {
		failure.Stage, failure.Partial = cmp.Or(o.Known.Failure.Stage, failure.Stage), o.Known.Failure.Partial
	}
	origin, err := e.source.Origin(e.ctx, ordinal, shape, item)
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
func (e *execution) notesDrops() bool { return e.in.PassesOn() || e.awaited || e.source.NotesDrops() }
