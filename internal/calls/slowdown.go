package calls

import (
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/backoff"
)

// SlowDownError is a handler's slow-down request: the items without an outcome have not failed.
// They are repeated, and the whole job's rate is lowered if many calls are refused so (see [Brake]).
type SlowDownError struct {
	After time.Duration // before which nothing should be begun
}

func (e *SlowDownError) Error() string { return fmt.Sprintf("slow down: nothing more for %v", e.After) }

// SlowDown takes in such a request. It can be called at any time, also while the handler continues. It reports whether
// the job slows down: the batch then ends with the item, or the call, in hand. Items that the call leaves
// without an outcome are called again.
func (c *Call) SlowDown(after time.Duration) (all bool) {
	after = max(after, 1) // asked for, however short
	first := c.lane.slowed.Swap(int64(after)) == 0
	if all = c.lane.braked.Load(); first {
		all = c.brake.refused(after)
		c.lane.braked.Store(all)
	}
	if all {
		c.lane.watch.SlowDown(after)
	}
	return all
}

// SlowDown has the batch end, and the job slow down.
func (m *Watch) SlowDown(after time.Duration) {
	until := int64(time.Since(m.began) + max(after, 1))
	for {
		before := m.slowed.Load()
		if until <= before || m.slowed.CompareAndSwap(before, until) {
			break
		}
	}
	m.end()
}

// EndSoon has the batch end once the calls in hand have ended.
func (m *Watch) EndSoon() { m.end() }

// Stopping is closed if the batch should end because the job or the worker does.
func (m *Watch) Stopping() <-chan struct{} { return m.stopping }

// Over is closed if the batch must end at once.
func (m *Watch) Over() <-chan struct{} { return m.ended }

// SlowedDown is the longest delay that has been asked for, as far as it is not over; 0: none has been.
func (m *Watch) SlowedDown() time.Duration {
	until := m.slowed.Load()
	if until == 0 {
		return 0
	}
	return max(1, time.Duration(until)-time.Since(m.began))
}

// SitOut waits, but not if the job or the worker ends, or the job slows down anyway.
func (m *Watch) SitOut(d time.Duration) {
	if m.SlowedDown() == 0 {
		backoff.Wait(d, m.stopping)
	}
}
