package samples

import (
	"cmp"
	"slices"
	"time"
)

// Batch is an execution of a batch that took long.
type Batch struct {
	Number int64         `json:"batch"` // of the batch, from 1
	First  int64         `json:"first"` // ordinal of the first item that was done
	Items  int64         `json:"items"` // that were done
	Stage  string        `json:"stage,omitempty"`
	Worker string        `json:"worker,omitempty"`
	Took   time.Duration `json:"took_ns"` // in nanoseconds
	Ended  time.Time     `json:"ended"`
}

// MaxSlowest is how many of the slowest batches are kept.
const MaxSlowest = 10

// Slowest returns those of both lists that took longest, the slowest first: at most [MaxSlowest].
func Slowest(a, b []Batch) []Batch {
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b Batch) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), a.Ended.Compare(b.Ended), cmp.Compare(a.Number, b.Number))
	})
	return all[:min(len(all), MaxSlowest)]
}

// Admits reports whether one that took so long would be among the slowest of a list.
func Admits(slowest []Batch, took time.Duration) bool {
	return len(slowest) < MaxSlowest || took > slowest[len(slowest)-1].Took
}
