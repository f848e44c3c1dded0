package calls

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
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
	m.EndSoon()
}

// SlowedDown returns the longest delay that has been asked for, as far as it is not over; 0: none has been.
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

// Brake decides whether a slow-down request is about the rate at which calls are made. Some requests are refused
// whatever the rate is: of a quota that others use too, or at random. Only if the share of refused calls is high
// of late the job slows down; otherwise the item waits alone. It is safe for concurrent use; with a nil Brake
// each request counts.
type Brake struct {
	used  atomic.Bool  // a call has been refused
	under atomic.Int64 // calls under way

	mu     sync.Mutex
	recent [2]uint64 // of the last calls, the youngest in the lowest bit: 1 if it was refused
	until  time.Time // after that the calls before are of no interest; zero: they are
}

const (
	// braked of the last 128 calls refused is a high share: a tenth.
	braked = 13
	// inRow is how many calls refused in a row are a high share, whatever was before. Of calls that are refused
	// at random, one in fifty, one in six million completes such a row. Of many calls under way a tenth must be in it:
	// a refusal comes sooner than an answer, so that those of a whole burst come first.
	inRow = 4
)

// began and ended count a call under way.
func (b *Brake) began() {
	if b != nil {
		b.under.Add(1)
	}
}

func (b *Brake) ended() {
	if b != nil {
		b.under.Add(-1)
	}
}

// answered takes in so many answers.
func (b *Brake) answered(n int) {
	if b == nil || n == 0 || !b.used.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shift(uint(n))
}

// refused takes in a slow-down request, for so long. It reports whether the job should slow down.
func (b *Brake) refused(after time.Duration) (slow bool) {
	if b == nil {
		return true
	}
	b.used.Store(true)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.until.IsZero() && now.After(b.until) {
		b.recent, b.until = [2]uint64{}, time.Time{}
	}
	b.shift(1)
	b.recent[0] |= 1
	row := min(max(inRow, b.under.Load()/10), 64)
	slow = int64(bits.TrailingZeros64(^b.recent[0])) >= row || bits.OnesCount64(b.recent[0])+bits.OnesCount64(b.recent[1]) >= braked
	if until := now.Add(after); slow && until.After(b.until) {
		b.until = until
	}
	return slow
}

// shift makes room for so many calls. The lock is held.
func (b *Brake) shift(n uint) {
	low, high := b.recent[0], b.recent[1]
	b.recent = [2]uint64{low << n, high<<n | low>>(64-min(n, 64))}
	if n > 64 {
		b.recent[1] = low << (n - 64)
	}
}
