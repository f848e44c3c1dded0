package stages

import (
	"context"
	"encoding/json"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// textShape is that of lines which are texts.
var textShape = wire.Shape{Format: records.Text}

// Settled is the error of an item that an earlier step has settled: it has failed, or it was dropped.
type Settled struct {
	// Line is that of the error; nil: the item was dropped.
	Line *wire.ErrorLine
	// Decided: that is counted already.
	Decided bool
}

// Error says what has become of the item.
func (s *Settled) Error() string {
	if s.Line == nil {
		return "an earlier stage has dropped the item"
	}
	return "the item has failed in an earlier stage: " + s.Line.Failure.Error.Error()
}

// Undone is the error of an item that an ensemble or a switch could make nothing of.
type Undone struct {
	Stage   string
	Err     job.Error
	Partial json.RawMessage // see job.Failure
}

func (u *Undone) Error() string { return u.Err.Error() }

// outcome is what a view has of one item: a line without its end, or what has settled it. The line is valid until the next item.
type outcome struct {
	line    []byte
	settled *Settled
	undone  *Undone
}

func (o *outcome) hasLine() bool { return o.settled == nil && o.undone == nil }

// fresh is the outcome as one that is not counted yet.
func (o outcome) fresh() outcome {
	if o.settled != nil {
		o.settled = &Settled{Line: o.settled.Line}
	}
	return o
}

// err is what is wrong with an outcome that is not a line.
func (o *outcome) err() error {
	if o.undone != nil {
		return o.undone
	}
	return o.settled
}

// failure is the error of an outcome; nil: the item was dropped.
func (o *outcome) failure() *job.Error {
	switch {
	case o.undone != nil:
		return &o.undone.Err
	case o.settled.Line == nil:
		return nil
	}
	return &o.settled.Line.Failure.Error
}

// viewReader reads what a view has of the items of a batch, in their order.
type viewReader struct {
	view   wire.View
	parts  map[int]*reader
	items  map[int]outcome // of the current item, by part
	forms  map[int]wire.Format
	text   bool
	routed uint32
	list   []byte // of a zip
	quoted []byte // texts as JSON
}

// openView opens what a step reads of a batch. It opens the store if a part is there.
func openView(ctx context.Context, open func() (store.Dir, error), batch wire.Batch, view wire.View) (*viewReader, error) {
	v := &viewReader{view: view, parts: map[int]*reader{}, items: map[int]outcome{}, forms: map[int]wire.Format{}}
	wanted := map[int]bool{}
	view.EachPart(func(part int) { wanted[part] = true })
	for _, p := range batch.From.Parts {
		if !wanted[p.Number] {
			continue
		}
		r, err := openPart(ctx, open, batch, p)
		if err != nil {
			v.close()
			return nil, err
		}
		v.parts[p.Number], v.forms[p.Number] = r, wire.Format(p.Format)
	}
	v.text = v.isText(&view)
	return v, nil
}

func openPart(ctx context.Context, open func() (store.Dir, error), batch wire.Batch, p wire.Part) (r *reader, err error) {
	var dir store.Dir
	if p.Inline == nil {
		if dir, err = open(); err != nil {
			return nil, err
		}
	}
	return openReader(ctx, dir, batch, p)
}

// format is that of the lines.
func (v *viewReader) format() wire.Format {
	if v.text {
		return records.Text
	}
	return records.JSONL
}

// isText reports whether a view's lines are texts. Those of a switch are if all its cases' are; of a case that no item belongs to there
// is no part.
func (v *viewReader) isText(view *wire.View) bool {
	switch {
	case len(view.Zip) > 0:
		return false
	case len(view.Pick) == 0:
		format, ok := v.forms[view.Part]
		return !ok || format == records.Text
	}
	for i := range view.Pick {
		if !v.isText(&view.Pick[i]) {
			return false
		}
	}
	return true
}

// next returns what the view has of the next item.
func (v *viewReader) next() (outcome, error) {
	for number, r := range v.parts {
		line, settled, err := r.next()
		if err != nil {
			return outcome{}, err
		}
		v.items[number] = outcome{line: line, settled: settled}
	}
	v.list, v.quoted = v.list[:0], v.quoted[:0]
	return v.of(&v.view, v.text), nil
}

// of is what a view has of the current item, as text or as JSON.
func (v *viewReader) of(view *wire.View, asText bool) outcome {
	o, ok := v.items[view.Part]
	if !ok { // a case that no item belongs to
		return outcome{settled: &Settled{}}
	}
	switch {
	case !o.hasLine() && (view.Values || view.Route != nil && view.Pick == nil):
		return outcome{settled: &Settled{}} // it goes round these steps
	case !o.hasLine():
		return o
	case len(view.Zip) > 0:
		return v.zip(view)
	case view.Route == nil:
		return v.as(o, v.forms[view.Part], asText)
	}
	index, other := v.route(view, o)
	switch {
	case view.Pick == nil && index >= 0:
		v.routed |= 1 << index
		fallthrough
	case view.Pick == nil:
		if index != view.Case {
			return outcome{settled: &Settled{}}
		}
		return v.as(o, v.forms[view.Part], asText)
	case index < 0:
		return other
	}
	return v.of(&view.Pick[index], asText).fresh()
}

// as returns an outcome whose line has the format that is asked for: a text in JSON is a string.
func (v *viewReader) as(o outcome, format wire.Format, asText bool) outcome {
	if asText || format != records.Text {
		return o
	}
	start := len(v.quoted)
	quoted, err := records.AppendJSON(&textShape, v.quoted, &records.Item{Raw: o.line, Size: int64(len(o.line))})
	if err != nil {
		return outcome{undone: &Undone{Err: job.Error{Type: "Invalid", Message: err.Error()}}}
	}
	v.quoted = quoted
	o.line = quoted[start:len(quoted):len(quoted)]
	return o
}

// verify reads the parts to their ends. It returns an error unless they are what was accepted.
func (v *viewReader) verify() error {
	for _, r := range v.parts {
		if err := r.verify(); err != nil {
			return err
		}
	}
	return nil
}

func (v *viewReader) close() {
	for _, r := range v.parts {
		r.close()
	}
}
