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
