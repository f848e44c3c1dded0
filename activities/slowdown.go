package activities

import (
	"fmt"
	"time"

	"github.com/stint-run/stint/job"
)

// SlowDownError is a handler's wish for less work: the items without an outcome have not failed.
// They come again, and the whole job's rate is lowered.
type SlowDownError struct {
	After time.Duration // before which nothing should be begun
}

func (e *SlowDownError) Error() string { return fmt.Sprintf("slow down: nothing more for %v", e.After) }

// SlowDown takes in such a wish: the batch ends with the item, or the call, in hand, and tells the
// job. It can be called at any time, also while the handler goes on.
func (c *Call) SlowDown(after time.Duration) { c.minder.slowDown(after) }

func (m *minder) slowDown(after time.Duration) {
	after = max(after, 1) // asked for, however short
	for {
		before := m.slowed.Load()
		if int64(after) <= before || m.slowed.CompareAndSwap(before, int64(after)) {
			break
		}
	}
	m.end(nil)
}

// slowedDown is the longest delay that has been asked for; 0: none.
func (m *minder) slowedDown() time.Duration { return time.Duration(m.slowed.Load()) }

// stride is how a batch keeps its pace: its items are begun in portions of a second's worth at most,
// and each portion takes the time that is due for it.
type stride struct {
	pace job.Rate // 0: no limit
	// waited is the time spent waiting.
	waited time.Duration
	began  time.Time // of the portion in hand
}

// portion is the most items to begin at once, out of so many.
func (s *stride) portion(items int) int {
	if s.pace == 0 {
		return items
	}
	s.began = time.Now()
	return int(max(1, min(int64(items), int64(s.pace/1000))))
}

// pass waits until so many items may have been begun, also where the batch then ends because it has run
// for its slice: its rest would begin at once, and so more often than its pace allows.
func (s *stride) pass(m *minder, items int) {
	if s.pace == 0 || items == 0 {
		return
	}
	due := time.Duration(float64(items) / float64(s.pace) * 1000 * float64(time.Second))
	now := time.Now()
	if left := due - now.Sub(s.began); left > 0 {
		m.sitOut(left)
		s.waited += time.Since(now)
	}
}

// sitOut waits, but not where the job or the worker ends, or the job slows down anyway.
func (m *minder) sitOut(d time.Duration) {
	m.scope.Release()
	if m.slowedDown() > 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.stopping:
	}
}
