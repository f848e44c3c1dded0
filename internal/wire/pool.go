package wire

import (
	"cmp"
	"time"

	"github.com/stint-run/stint/job"
)

// PoolWorker is what is known of a worker.
type PoolWorker struct {
	Name string `json:"w"`
	Capacity
	Last int64 `json:"t"` // when it was heard of, in Unix seconds
}

// PoolView is what a job knows of its pool.
type PoolView struct {
	Workers []PoolWorker `json:"workers,omitempty"` // by name, at most 64: those heard of last
	// Items is how many items a batch has, on average, of the page found last.
	Items int64 `json:"items,omitempty"`
	// Grown is the window that waiting slots have led to; 0: they have not waited.
	Grown int `json:"grown,omitempty"`
	// Changed is when the window in force was set, or has changed.
	Changed time.Time `json:"changed,omitzero"`
}

// Slowed is the limit that follows a handler's request to slow down.
type Slowed struct {
	Base job.Rate  `json:"base,omitempty"` // at From; 0: no limit
	From time.Time `json:"from,omitzero"`  // nothing starts before
	// Known says that the rate was a limit when it was lowered, so one that is too high is known. Otherwise it was only
	// what had been observed.
	Known bool `json:"known,omitempty"`
	// Halved is when the rate was last lowered.
	Halved time.Time `json:"halved,omitzero"`
	// First is when the first request came.
	First time.Time `json:"first,omitzero"`
}

// StageBound is the window of a stage.
type StageBound struct {
	Stage  string `json:"s"`
	Window int    `json:"w"` // of all legs; at least 1
	Share  int    `json:"n"` // of one leg, at most Window
}

// Speed is what batches have shown of the handler's speed. Large batches show it best, because every
// batch has its own cost: batches of less than about half the size of the largest do not count.
type Speed struct {
	Items   int64         `json:"items"`
	Busy    time.Duration `json:"busy"` // of one slot, for these items
	Largest int64         `json:"largest"`
}

// Add counts a batch of so many items that has kept a slot busy for so long.
func (s *Speed) Add(items int64, busy time.Duration) {
	if items >= 2*s.Largest {
		*s = Speed{Largest: items}
	}
	if 2*items < s.Largest {
		return
	}
	s.Largest = max(s.Largest, items)
	s.Items += items
	s.Busy += busy
}

// Rate returns how many items one slot handles in 1,000 seconds; 0 if nothing is known.
func (s Speed) Rate() int64 { return s.Items * 1_000_000 / max(1, s.Busy.Milliseconds()) }

// Count returns how many items one slot handles in a time; 0 if nothing is known.
func (s Speed) Count(d time.Duration) int64 {
	return s.Items * d.Microseconds() / max(1, s.Busy.Microseconds())
}

// Each returns how long one item takes; 0 if nothing is known.
func (s Speed) Each() time.Duration { return s.Busy / time.Duration(max(1, s.Items)) }

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
