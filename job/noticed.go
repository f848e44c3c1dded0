package job

import "slices"

// Noticed is what reading a job's inputs has shown that is no error, and that a person should know.
type Noticed struct {
	// Blank is how many blank lines of jsonl and csv were read, which are no items. Those of batches that earlier runs have done do not count.
	Blank int64 `json:"blank,omitempty"`
	// Notes are sentences about single inputs, at most [MaxNotes] of them.
	Notes []string `json:"notes,omitempty"`
}

// MaxNotes is how many notes about its inputs a job has at most.
const MaxNotes = 10

// Add adds what was noticed later.
func (n *Noticed) Add(later Noticed) {
	n.Blank += later.Blank
	for _, note := range later.Notes {
		n.Note(note)
	}
}

// Note adds a note, unless it is there already or there are too many.
func (n *Noticed) Note(note string) {
	if len(n.Notes) < MaxNotes && !slices.Contains(n.Notes, note) {
		n.Notes = append(n.Notes, note)
	}
}
