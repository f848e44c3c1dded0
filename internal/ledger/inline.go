package ledger

import (
	"bytes"
	"fmt"

	"github.com/stint-run/stint/job"
)

// Inline is what the objects of a small part would hold: it travels in the answer of Process, and Commit writes it to the
// store, together with others.
type Inline struct {
	// Results are the lines of the items with a result, in order.
	Results []byte `json:"r,omitempty"`
	// Notes are about every item without one, in order. Their At counts in Results.
	Notes []ErrorLine `json:"n,omitempty"`
}

// Size is about how many bytes it takes.
func (i *Inline) Size() int {
	size := len(i.Results)
	for n := range i.Notes {
		e := &i.Notes[n]
		size += 200 + len(e.Failure.Input) + len(e.Failure.Error.Message) + len(e.Failure.Error.Stack) + len(e.Raw)
	}
	return size
}

// Outcome is what has become of one item: a result, a failure, or neither if it was dropped.
type Outcome struct {
	Result  []byte // without the end of its line; nil if there is none
	Failure *job.Failure
}

// Outcomes returns those of all items, in order: so many items must have one.
func (i *Inline) Outcomes(count int64) ([]Outcome, error) {
	all := make([]Outcome, 0, count)
	at, rest, notes := int64(0), i.Results, i.Notes
	for int64(len(all)) < count {
		if len(notes) > 0 && notes[0].At == at {
			if notes[0].Dropped {
				all = append(all, Outcome{})
			} else {
				all = append(all, Outcome{Failure: &notes[0].Failure})
			}
			notes = notes[1:]
			continue
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			break
		}
		all = append(all, Outcome{Result: rest[:end:end]})
		rest = rest[end+1:]
		at += int64(end) + 1
	}
	if int64(len(all)) != count || len(rest) > 0 || len(notes) > 0 {
		return nil, fmt.Errorf("a batch of %d items has %d outcomes, and %d bytes and %d notes too many", count, len(all), len(rest), len(notes))
	}
	return all, nil
}
