package workflows

import (
	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/workflows/internal/dispatch"
)

// pageSupply supplies the batches of a page, in order.
type pageSupply struct {
	batches []protocol.Batch
	number  int64 // of the next batch, from 1
	more    bool  // another page may follow: see extend
}

// newPageSupply reads a page whose first batch comes after so many others of the job.
func newPageSupply(page []byte, before int64) (*pageSupply, error) {
	batches, err := activities.DecodePage(page)
	if err != nil {
		return nil, err
	}
	return &pageSupply{batches: batches, number: before + 1}, nil
}

// Next is that of [dispatch.Supply].
func (s *pageSupply) Next() (dispatch.Task, bool) {
	if len(s.batches) == 0 {
		return dispatch.Task{}, false
	}
	t := dispatch.Task{Batch: s.batches[0], Number: s.number}
	s.batches = s.batches[1:]
	s.number++
	return t, true
}

// Waiting is that of [dispatch.Supply].
func (s *pageSupply) Waiting() int { return len(s.batches) }

// Ended is that of [dispatch.Supply].
func (s *pageSupply) Ended() bool { return len(s.batches) == 0 && !s.more }

// extend adds the batches of another page, which is the last one.
func (s *pageSupply) extend(batches []protocol.Batch) {
	s.batches = append(s.batches, batches...)
	s.more = false
}

// items is how many items are in the batches that have not been taken.
func (s *pageSupply) items() int64 {
	var n int64
	for _, b := range s.batches {
		n += b.Count
	}
	return n
}
