package activities

import (
	"time"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/job"
)

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

// pass waits until so many items may have been begun, also if the batch then ends because it has run
// for its slice: its rest would begin at once, and so more often than its pace allows.
func (s *stride) pass(m *calls.Watch, items int) {
	if s.pace == 0 || items == 0 {
		return
	}
	due := time.Duration(float64(items) / float64(s.pace) * 1000 * float64(time.Second))
	now := time.Now()
	if left := due - now.Sub(s.began); left > 0 {
		m.SitOut(left)
		s.waited += time.Since(now)
	}
}
