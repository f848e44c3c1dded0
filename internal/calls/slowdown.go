package calls

import (
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/backoff"
)

// SlowDownError is a handler's slow-down request: the items without an outcome have not failed.
// They are repeated, and the whole job's rate is lowered.
type SlowDownError struct {
	After time.Duration // before which nothing should be begun
}

func (e *SlowDownError) Error() string { return fmt.Sprintf("slow down: nothing more for %v", e.After) }

// SlowDown takes in such a request: the batch ends with the item, or the call, in hand, and the
// job slows down. It can be called at any time, also while the handler continues.
func (c *Call) SlowDown(after time.Duration) {
	c.lane.slowed.Store(true)
	c.lane.watch.SlowDown(after)
}

func (m *Watch) SlowDown(after time.Duration) {
	after = max(after, 1) // asked for, however short
	for {
		before := m.slowed.Load()
		if int64(after) <= before || m.slowed.CompareAndSwap(before, int64(after)) {
			break
		}
	}
	m.end()
}

// EndSoon has the batch end once the calls in hand have ended.
func (m *Watch) EndSoon() { m.end() }

// SlowedDown is the longest delay that has been asked for; 0: none.
func (m *Watch) SlowedDown() time.Duration { return time.Duration(m.slowed.Load()) }

// SitOut waits, but not if the job or the worker ends, or the job slows down anyway.
func (m *Watch) SitOut(d time.Duration) {
	if m.SlowedDown() == 0 {
		backoff.Wait(d, m.stopping)
	}
}
