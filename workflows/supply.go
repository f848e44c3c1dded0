package workflows

import (
	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/protocol"
)

// supply is where a dispatcher takes new batches from. It belongs to one dispatcher and is used by its
// workflow only. Batches that come back (repetitions, rests) stay with the dispatcher.
type supply interface {
	// next takes out the next batch. It returns false if there is none now.
	next() (task, bool)
	// waiting returns how many batches next would return now.
	waiting() int
	// ended reports that next returns no more batches, now or later.
	ended() bool
}

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

func (s *pageSupply) next() (task, bool) {
	if len(s.batches) == 0 {
		return task{}, false
	}
	t := task{Batch: s.batches[0], Number: s.number}
	s.batches = s.batches[1:]
	s.number++
	return t, true
}

func (s *pageSupply) waiting() int { return len(s.batches) }

func (s *pageSupply) ended() bool { return len(s.batches) == 0 && !s.more }

// extend adds the batches of another page, which is the last one.
func (s *pageSupply) extend(batches []protocol.Batch) {
	s.batches = append(s.batches, batches...)
	s.more = false
}

// drain takes out all batches, as tasks.
func drain(s supply) []task {
	var left []task
	for {
		t, ok := s.next()
		if !ok {
			return left
		}
		left = append(left, t)
	}
}
