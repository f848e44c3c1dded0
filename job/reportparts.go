package job

import (
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
)

// CallTimes says how long calls of the handler took: the longest one, and how many there were in each class of times,
// which double. "5203 10:3 12:9": the longest took 5,203 µs, 3 took 2¹⁰ µs to below 2¹¹, and 9 took 2¹² to below 2¹³.
// Empty: there were no calls. It is a text, so that it takes a few bytes in a history and can be compared.
type CallTimes string

// Plus returns the times of the calls of both.
func (c CallTimes) Plus(o CallTimes) CallTimes {
	if c == "" || o == "" {
		return c + o
	}
	sum := calltimes.Parse(string(c))
	sum.Include(calltimes.Parse(string(o)))
	return CallTimes(sum.String())
}

// Longest returns how long the longest call took; 0 if there was none.
func (c CallTimes) Longest() time.Duration { return calltimes.Parse(string(c)).Longest() }

// Percentile returns about how long p percent of the calls, 1 to 100, took at most: it interpolates within a class. It
// is never more than [CallTimes.Longest], and 0 if there was no call.
func (c CallTimes) Percentile(p int) time.Duration { return calltimes.Parse(string(c)).Percentile(p) }

// Noticed is what reading a job's inputs has shown that is no error, and that a person should know.
type Noticed struct {
	// Blank is how many blank lines of jsonl and csv were read, which are no items. Those of batches that earlier runs
	// have done do not count.
	Blank int64 `json:"blank,omitempty"`
	// Notes are sentences about single inputs, at most 10 of them.
	Notes []string `json:"notes,omitempty"`
}

// maxNote bounds a note, in bytes as JSON.
const maxNote = 1000

// Add adds what was noticed later.
func (n *Noticed) Add(later Noticed) {
	n.Blank += later.Blank
	for _, note := range later.Notes {
		n.Note(note)
	}
}

// Note adds a note, unless it is there already or there are too many.
func (n *Noticed) Note(note string) {
	note = text.Fit(note, maxNote)
	if note != "" && len(n.Notes) < limits.MaxNotes && !slices.Contains(n.Notes, note) {
		n.Notes = append(n.Notes, note)
	}
}

// Totals returns the totals that a leg has reported.
func (c Counted) Totals() Totals {
	return Totals{OK: c.OK, Failed: c.Failed, Dropped: c.Dropped, Batches: c.Batches, InputBytes: c.Bytes, Usage: c.Spent}
}
