package activities

import (
	"time"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/job"
)

// stride is how a batch keeps its pace: its items are begun in portions of a second's worth at most,
// and the next portion once the time is over that is due for the one before. One goroutine at a time uses it.
type stride struct {
	pace job.Rate // 0: no limit
	// waited is the time spent waiting.
	waited time.Duration
	next   time.Time // when the next portion may begin
}

// portion is the most items to begin at once, out of so many.
func (s *stride) portion(items int) int {
	if s.pace == 0 {
		return items
	}
	return int(max(1, min(int64(items), int64(s.pace/1000))))
}

// begin waits until a portion of so many items may begin. It returns false if the batch ends instead.
func (s *stride) begin(m *calls.Watch, items int) bool {
	if s.pace == 0 {
		return true
	}
	now := time.Now()
	if left := s.next.Sub(now); left > 0 {
		ok := m.Wait(left)
		s.waited += time.Since(now)
		if !ok {
			return false
		}
	}
	s.next = time.Now().Add(time.Duration(float64(items) / float64(s.pace) * 1000 * float64(time.Second)))
	return true
}

// finish waits until the next portion might begin, also if the batch ends because it has run
// for its slice: its rest begins at once, and would do so more often than its pace allows.
func (s *stride) finish(m *calls.Watch) {
	now := time.Now()
	if left := s.next.Sub(now); left > 0 {
		m.SitOut(left)
		s.waited += time.Since(now)
	}
}
