package calls

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Brake decides whether a slow-down request is about the rate at which calls are made. Some requests are refused
// whatever the rate is: of a quota that others use too, or at random. Only if the share of refused calls is high
// of late the job slows down; otherwise the item waits alone. It is safe for concurrent use; with a nil Brake
// each request counts.
type Brake struct {
	used atomic.Bool // a call has been refused

	mu     sync.Mutex
	recent [2]uint64 // of the last calls, the youngest in the lowest bit: 1 if it was refused
	until  time.Time // after that the calls before are of no interest; zero: they are
}

const (
	// braked of the last 128 calls refused is a high share: a tenth.
	braked = 13
	// inRow is how many calls refused in a row are a high share, whatever was before. Of calls that are refused
	// at random, one in fifty, one in six million completes such a row.
	inRow = 4
)

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
	const row = 1<<inRow - 1
	slow = b.recent[0]&row == row || bits.OnesCount64(b.recent[0])+bits.OnesCount64(b.recent[1]) >= braked
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
