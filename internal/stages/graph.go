package stages

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// maxPartial is how many bytes of results an error record keeps of an ensemble.
const maxPartial = 256 << 10

// zip is the list of what an ensemble's members have made of the current item.
func (v *viewReader) zip(view *wire.View) outcome {
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
			data, _ := text.JSON(struct { // of texts
				Error job.Error `json:"error"`
			}{short})
			list = append(list, data...)
		}
	}
	return append(list, ']')
}

// route returns the index of the case of an item that has a line. If it has none the index is negative, and other is what becomes of the
// item.
func (v *viewReader) route(view *wire.View, item outcome) (index int, other outcome) {
	r := view.Route
	var value string
	if r.Field != "" {
		found, err := field(item.line, r.Field)
		if err != nil && r.Else {
			return len(r.Cases), outcome{} // no case is for it
		}
		if err != nil {
			return -1, v.lost(view, err.Error()+": correct the item, or add a default")
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
			if err := json.Unmarshal(answer.line, &value); err != nil && r.Else {
				return len(r.Cases), outcome{}
			} else if err != nil {
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

func (v *viewReader) lost(view *wire.View, why string) outcome {
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
