package stages

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
)

// maxPartial is how many bytes of results an error record keeps of an ensemble.
const maxPartial = 256 << 10

// Settled is the error of an item that an earlier step has settled: it has failed, or it was dropped.
type Settled struct {
	// Line is that of the error; nil: the item was dropped.
	Line *ledger.ErrorLine
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
	view   protocol.View
	parts  map[int]*reader
	items  map[int]outcome // of the current item, by part
	forms  map[int]records.Format
	text   bool
	routed uint32
	list   []byte // of a zip
	quoted []byte // texts as JSON
}

// openView opens what a step reads of a batch. It opens the store if a part is there.
func openView(ctx context.Context, open func() (store.Dir, error), batch protocol.Batch, view protocol.View) (*viewReader, error) {
	v := &viewReader{view: view, parts: map[int]*reader{}, items: map[int]outcome{}, forms: map[int]records.Format{}}
	wanted := map[int]bool{}
	eachPart(&view, func(part int) { wanted[part] = true })
	for _, p := range batch.From.Parts {
		if !wanted[p.Number] {
			continue
		}
		r, err := openPart(ctx, open, batch, p)
		if err != nil {
			v.close()
			return nil, err
		}
		v.parts[p.Number], v.forms[p.Number] = r, records.Format(p.Format)
	}
	v.text = v.isText(&view)
	return v, nil
}

func openPart(ctx context.Context, open func() (store.Dir, error), batch protocol.Batch, p protocol.Part) (r *reader, err error) {
	var dir store.Dir
	if p.Inline == nil {
		if dir, err = open(); err != nil {
			return nil, err
		}
	}
	return openReader(ctx, dir, batch, p)
}

// format is that of the lines.
func (v *viewReader) format() records.Format {
	if v.text {
		return records.Text
	}
	return records.JSONL
}

// isText reports whether a view's lines are texts. Those of a switch are if all its cases' are; of a case that no item belongs to there
// is no part.
func (v *viewReader) isText(view *protocol.View) bool {
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
func (v *viewReader) of(view *protocol.View, asText bool) outcome {
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
func (v *viewReader) as(o outcome, format records.Format, asText bool) outcome {
	if asText || format != records.Text {
		return o
	}
	start := len(v.quoted)
	shape := records.Shape{Format: records.Text}
	quoted, err := shape.AppendJSON(v.quoted, &records.Item{Raw: o.line, Size: int64(len(o.line))})
	if err != nil {
		return outcome{undone: &Undone{Err: job.Error{Type: "Invalid", Message: err.Error()}}}
	}
	v.quoted = quoted
	o.line = quoted[start:len(quoted):len(quoted)]
	return o
}

// route returns the index of the case of an item that has a line. If it has none the index is negative, and other is what becomes of the
// item.
func (v *viewReader) route(view *protocol.View, item outcome) (index int, other outcome) {
	r := view.Route
	var value string
	if r.Field != "" {
		found, err := field(item.line, r.Field)
		if err != nil {
			return -1, v.lost(view, err.Error())
		}
		value = found
	} else {
		answer, ok := v.items[r.Answer]
		if !ok || !answer.hasLine() {
			if !ok {
				answer = outcome{settled: &Settled{}}
			}
			return -1, answer.fresh()
		}
		value = string(answer.line)
		if v.forms[r.Answer] != records.Text {
			if err := json.Unmarshal(answer.line, &value); err != nil {
				return -1, v.lost(view, fmt.Sprintf("the answer %s is not a text", text.Cut(string(answer.line), 100)))
			}
		}
	}
	for i, c := range r.Cases {
		if c == value {
			return i, outcome{}
		}
	}
	if r.Else {
		return len(r.Cases), outcome{}
	}
	return -1, v.lost(view, fmt.Sprintf("no case for %q: there are %s; add one, or a default", text.Cut(value, 100), text.Cut(strings.Join(r.Cases, ", "), 200)))
}

func (v *viewReader) lost(view *protocol.View, why string) outcome {
	return outcome{undone: &Undone{Stage: view.Stage, Err: job.Error{Type: job.ErrorRoute, Message: why}}}
}

// field returns the value of a field of an item such as ".place.country".
func field(item []byte, path string) (string, error) {
	value := json.RawMessage(item)
	for name := range strings.SplitSeq(path[1:], ".") {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(value, &fields); err != nil || fields == nil {
			return "", fmt.Errorf("the item has no field %s: %s is not an object", path, text.Cut(string(value), 100))
		}
		inner, ok := fields[name]
		if !ok {
			return "", fmt.Errorf("the item has no field %s", path)
		}
		value = inner
	}
	var is any
	decoder := json.NewDecoder(strings.NewReader(string(value)))
	decoder.UseNumber()
	if err := decoder.Decode(&is); err != nil {
		return "", fmt.Errorf("the item has no field %s: %w", path, err)
	}
	switch is := is.(type) {
	case string:
		return is, nil
	case json.Number, bool:
		return fmt.Sprint(is), nil
	}
	return "", fmt.Errorf("the item's field %s is %s: expected a text, a number, true or false", path, text.Cut(string(value), 100))
}

// zip is the list of what an ensemble's members have made of the current item.
func (v *viewReader) zip(view *protocol.View) outcome {
	members := make([]outcome, len(view.Zip))
	finished, failed, first := 0, 0, -1
	for i := range view.Zip {
		members[i] = v.of(&view.Zip[i], false)
		if o := &members[i]; o.hasLine() && !json.Valid(o.line) { // written by a filter
			*o = outcome{undone: &Undone{Stage: view.Stage, Err: job.Error{
				Type: "Invalid", Message: fmt.Sprintf("member %d of %d has answered with what is not JSON: %s", i+1, len(view.Zip), text.Cut(string(o.line), 100)),
			}}}
		}
		switch o := &members[i]; {
		case o.hasLine():
			finished++
		case o.failure() != nil:
			failed++
			if first < 0 {
				first = i
			}
		}
	}
	start := len(v.list)
	v.list = appendList(v.list, members)
	line := v.list[start:len(v.list):len(v.list)]
	switch {
	case failed == 0 && finished == 0:
		return outcome{settled: &Settled{}} // all have dropped it
	case failed == 0 || view.KeepErrors && failed < len(members):
		return outcome{line: line}
	}
	partial := json.RawMessage(nil)
	if len(line) <= maxPartial {
		partial = append(partial, line...)
	}
	if view.KeepErrors {
		return outcome{undone: &Undone{Stage: view.Stage, Partial: partial, Err: job.Error{
			Type: job.ErrorEnsemble, Message: fmt.Sprintf("%d of %d members finished: %s", finished, len(members), members[first].failure()),
		}}}
	}
	return failedBy(&members[first], partial)
}

// failedBy is the outcome of an item that a member of an ensemble fails, with what the others have made of it.
func failedBy(member *outcome, partial json.RawMessage) outcome {
	if member.undone != nil {
		u := *member.undone
		u.Partial = partial
		return outcome{undone: &u}
	}
	line := *member.settled.Line
	line.Failure.Partial = partial
	return outcome{settled: &Settled{Line: &line}}
}

// appendList appends a list of members' outcomes.
func appendList(list []byte, members []outcome) []byte {
	list = append(list, '[')
	for i := range members {
		if i > 0 {
			list = append(list, ',')
		}
		switch o := &members[i]; {
		case o.hasLine():
			list = append(list, o.line...)
		case o.failure() == nil:
			list = append(list, "null"...)
		default:
			short := job.Error{Type: o.failure().Type, Message: o.failure().Message}
			data, _ := json.Marshal(struct { // of texts
				Error job.Error `json:"error"`
			}{short})
			list = append(list, data...)
		}
	}
	return append(list, ']')
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
