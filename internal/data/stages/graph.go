package stages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// maxPartial is how many bytes of results an error record keeps of an ensemble.
const maxPartial = 256 << 10

// zip returns the list of what an ensemble's members have made of the current item.
func (v *viewReader) zip(view *wire.View) records.Outcome {
	members := make([]records.Outcome, len(view.Zip))
	finished, failures, first := 0, 0, -1
	for i := range view.Zip {
		members[i] = v.of(&view.Zip[i], false)
		o := &members[i]
		if o.Value != nil && !json.Valid(o.Value) { // written by a filter
			*o = undone(view.Stage, "Invalid",
				fmt.Sprintf("member %d of %d has answered with what is not JSON: %s", i+1, len(view.Zip), text.Cut(string(o.Value), 100)))
		}
		switch {
		case o.Value != nil:
			finished++
		case o.Failure != nil:
			failures++
			if first < 0 {
				first = i
			}
		}
	}
	start := len(v.list)
	v.list = appendList(v.list, members)
	line := v.list[start:len(v.list):len(v.list)]
	switch {
	case failures == 0 && finished == 0:
		return dropped // all have dropped it
	case failures == 0 || view.KeepErrors && failures < len(members):
		return records.Outcome{Value: line}
	}
	f := *members[first].Failure
	if view.KeepErrors {
		f = *undone(view.Stage, job.ErrorEnsemble, fmt.Sprintf("%d of %d members finished: %s", finished, len(members), &f.Error)).Failure
	}
	if f.Partial = nil; len(line) <= maxPartial {
		f.Partial = bytes.Clone(line)
	}
	of := members[first].Line
	if of == nil || view.KeepErrors {
		return failed(f)
	}
	noted := *of
	noted.Failure = f
	return records.Outcome{Failure: &noted.Failure, Line: &noted, Carried: true}
}

// appendList appends a list of members' outcomes.
func appendList(list []byte, members []records.Outcome) []byte {
	list = append(list, '[')
	for i := range members {
		if i > 0 {
			list = append(list, ',')
		}
		switch o := &members[i]; {
		case o.Value != nil:
			list = append(list, o.Value...)
		case o.Failure == nil:
			list = append(list, "null"...)
		default:
			short := job.Error{Type: o.Failure.Error.Type, Message: o.Failure.Error.Message}
			data, _ := text.JSON(struct { // of texts
				Error job.Error `json:"error"`
			}{short})
			list = append(list, data...)
		}
	}
	return append(list, ']')
}

// route returns the index of the case of an item that has a line. If it has none the index is negative, and other is
// what becomes of the item.
func (v *viewReader) route(view *wire.View, item records.Outcome) (index int, other records.Outcome) {
	r := view.Route
	var value string
	if r.Field != "" {
		found, err := field(item.Value, r.Field)
		if err != nil && r.Else {
			return len(r.Cases), records.Outcome{} // no case is for it
		}
		if err != nil {
			return -1, undone(view.Stage, job.ErrorRoute, err.Error()+": correct the item, or add a default")
		}
		value = found
	} else {
		p := v.part(r.Answer)
		if p == nil {
			return -1, dropped
		}
		answer := p.item
		if answer.Value == nil {
			return -1, uncounted(answer)
		}
		value = string(answer.Value)
		if p.format != records.Text {
			if err := json.Unmarshal(answer.Value, &value); err != nil && r.Else {
				return len(r.Cases), records.Outcome{}
			} else if err != nil {
				return -1, undone(view.Stage, job.ErrorRoute, fmt.Sprintf("the answer %s is not a text", text.Cut(string(answer.Value), 100)))
			}
		}
	}
	for i, c := range r.Cases {
		if c == value {
			return i, records.Outcome{}
		}
	}
	if r.Else {
		return len(r.Cases), records.Outcome{}
	}
	return -1, undone(view.Stage, job.ErrorRoute, fmt.Sprintf("no case for %q: there are %s; add one, or a default", text.Cut(value, 100), text.Cut(strings.Join(r.Cases, ", "), 200)))
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
