package job

import (
	"slices"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
)

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
