package stages

import (
	"context"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// textShape is that of lines which are texts.
var textShape = wire.Shape{Format: records.Text}

// dropped is the outcome of an item that this step does not get.
var dropped = records.Outcome{Carried: true}

// undone returns the outcome of an item that an ensemble or a switch could make nothing of. stage is empty if none is
// named.
func undone(stage, kind, message string) records.Outcome {
	return failed(job.Failure{Kind: job.KindError, Error: job.Error{Type: kind, Message: message}, Attempts: 1, Stage: stage})
}

func failed(f job.Failure) records.Outcome { return records.Outcome{Failure: &f, Carried: true} }

// viewReader reads what a view has of the items of a batch, in their order.
type viewReader struct {
	view   wire.View
	parts  []viewPart
	text   bool
	routed uint32
	list   []byte // of a zip
	quoted []byte // texts as JSON
}

// viewPart is a part that a view reads.
type viewPart struct {
	number int
	lines  *reader
	format wire.Format
	item   records.Outcome // of the current item; a value is valid until the next one
}

// part returns the part with the number, or nil if the batch has none, as for a case that no item belongs to.
func (v *viewReader) part(number int) *viewPart {
	for i := range v.parts {
		if v.parts[i].number == number {
			return &v.parts[i]
		}
	}
	return nil
}

// openView opens what a step reads of a batch. It opens the store if a part is there.
func openView(ctx context.Context, open func() (store.Dir, error), batch wire.Batch, view wire.View) (*viewReader, error) {
	v := &viewReader{view: view}
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
		v.parts = append(v.parts, viewPart{number: p.Number, lines: r, format: wire.Format(p.Format)})
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

// isText reports whether a view's lines are texts. Those of a switch are if all its cases' are.
func (v *viewReader) isText(view *wire.View) bool {
	switch {
	case len(view.Zip) > 0:
		return false
	case len(view.Pick) == 0:
		p := v.part(view.Part)
		return p == nil || p.format == records.Text
	}
	for i := range view.Pick {
		if !v.isText(&view.Pick[i]) {
			return false
		}
	}
	return true
}

// next returns what the view has of the next item.
func (v *viewReader) next() (records.Outcome, error) {
	for i := range v.parts {
		p := &v.parts[i]
		var err error
		if p.item, err = p.lines.next(); err != nil {
			return p.item, err
		}
	}
	v.list, v.quoted = v.list[:0], v.quoted[:0]
	return v.of(&v.view, v.text), nil
}

// of returns what a view has of the current item, as text or as JSON.
func (v *viewReader) of(view *wire.View, asText bool) records.Outcome {
	p := v.part(view.Part)
	if p == nil {
		return dropped
	}
	o := p.item
	switch {
	case o.Value == nil && (view.Values || view.Route != nil && view.Pick == nil):
		return dropped // it goes round these steps
	case o.Value == nil:
		return o
	case len(view.Zip) > 0:
		return v.zip(view)
	case view.Route == nil:
		return v.as(o, p.format, asText)
	}
	index, other := v.route(view, o)
	switch {
	case view.Pick == nil && index >= 0:
		v.routed |= 1 << index
		fallthrough
	case view.Pick == nil:
		if index != view.Case {
			return dropped
		}
		return v.as(o, p.format, asText)
	case index < 0:
		return other
	}
	return uncounted(v.of(&view.Pick[index], asText))
}

// uncounted returns the outcome as one that no step has counted.
func uncounted(o records.Outcome) records.Outcome {
	o.Counted = false
	return o
}

// as returns an outcome whose line has the format that is asked for: a text in JSON is a string.
func (v *viewReader) as(o records.Outcome, format wire.Format, asText bool) records.Outcome {
	if asText || format != records.Text {
		return o
	}
	start := len(v.quoted)
	quoted, err := records.AppendJSON(&textShape, v.quoted, &records.Item{Raw: o.Value, Size: int64(len(o.Value))})
	if err != nil {
		return undone("", "Invalid", err.Error())
	}
	v.quoted = quoted
	o.Value = quoted[start:len(quoted):len(quoted)]
	return o
}

// verify reads the parts to their ends. It returns an error unless they are what was accepted.
func (v *viewReader) verify() error {
	for _, p := range v.parts {
		if err := p.lines.verify(); err != nil {
			return err
		}
	}
	return nil
}

func (v *viewReader) close() {
	for _, p := range v.parts {
		p.lines.close()
	}
}
