package wire

import "cmp"

// How many batches a job gives to a leg.
const (
	// PageBatches is the most batches of a page. A leg with so many, each of which takes six events of
	// history, stays below the 4,096 at which Temporal suggests to continue as new.
	PageBatches = 600
	// FirstPage is the most batches of a job's first page, unless more of them occupy the slots of the worker
	// that plans it.
	FirstPage = 16
	// InsideBatches is the most batches of a first page for the job to run it in the leg inside it, and of a second
	// and last page: some 600 events each.
	InsideBatches = 100
)

// Capacity is what one worker of a pool runs at once. The zero value is one that is not known.
type Capacity struct {
	Slots       int `json:"s,omitempty"`
	Concurrency int `json:"c,omitempty"` // calls that a slot makes at once; 0: not known, taken for 1
	// Found is the number that the worker has found out, if it does: Concurrency is then what it is growing to.
	Found int `json:"f,omitempty"`
}

// Present is how many calls a slot makes at once now; 0: not known.
func (c Capacity) Present() int { return cmp.Or(c.Found, c.Concurrency) }

// Batches is how many batches of so many items (at least 1) keep all slots busy: one for each slot, or more if a batch
// has fewer items than a slot makes calls at once.
func (c Capacity) Batches(items int64) int64 {
	calls := int64(max(1, c.Concurrency))
	items = max(1, items)
	return int64(c.Slots) * ((calls + items - 1) / items)
}
