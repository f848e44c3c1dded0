package stages

import (
	"encoding/json"
	"fmt"

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
