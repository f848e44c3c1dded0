package calls

import (
	"time"

	"github.com/stint-run/stint/job"
	"golang.org/x/time/rate"
)

// Limiter bounds the items that all slots of a worker together begin in a time, of whatever jobs.
// Bursts are of one second's items, or of one. The nil Limiter has no limit.
type Limiter struct{ bucket *rate.Limiter }

// NewLimiter returns a Limiter for a rate; nil if that is 0.
func NewLimiter(limit job.Rate) *Limiter {
	if limit == 0 {
		return nil
	}
	perSecond := float64(limit) / 1000
	return &Limiter{rate.NewLimiter(rate.Limit(perSecond), int(max(1, min(perSecond, 1<<30))))}
}

// Portion is the most items to begin at once, out of so many.
func (l *Limiter) Portion(items int) int {
	if l == nil {
		return items
	}
	return min(items, l.bucket.Burst())
}

// Take waits until so many items, no more than a portion, may be begun. ok is false if the batch
// should end instead.
func (l *Limiter) Take(m *Watch, items int) (waited time.Duration, ok bool) {
	if l == nil || items == 0 {
		return 0, true
	}
	began := time.Now()
	taken := l.bucket.ReserveN(began, items)
	if m.Wait(taken.DelayFrom(began)) {
		return time.Since(began), true
	}
	taken.Cancel()
	return time.Since(began), false
}
