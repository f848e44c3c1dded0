package gateway

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/trap"
)

// maxInHand bounds the items of a request that have been taken and have no outcome yet, in bytes. One item may be larger.
const maxInHand = 4 << 20

// hand is what a request for results has in hand: items that have been taken from its body, and have no outcome yet. It limits
// their bytes, and how long the first of them is waited for.
type hand struct {
	limit time.Duration
	late  func(waited time.Duration) // the first has been waited for too long
	count func()                     // an item is given to the feed

	mu      sync.Mutex
	sizes   []int // in order
	bytes   int
	clock   *time.Timer   // runs while there are items, and no outcome is being sent
	since   time.Time     // the clock runs
	free    chan struct{} // gets a value when there is room
	stopped bool
}

func newHand(limit time.Duration, late func(time.Duration)) *hand {
	return &hand{limit: limit, late: late, free: make(chan struct{}, 1)}
}

// items are those of a body, each of which is taken in hand.
func (h *hand) items(ctx context.Context, from <-chan chunk) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for {
			var c chunk
			more := false
			select {
			case c, more = <-from:
			case <-ctx.Done():
			}
			if !more {
				return
			}
			for _, item := range c {
				if !h.take(ctx, len(item)) {
					return
				}
				h.count()
				if !yield(item) {
					return
				}
			}
		}
	}
}

// take waits until there is room for an item.
func (h *hand) take(ctx context.Context, size int) bool {
	for !h.taken(size) {
		select {
		case <-h.free:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (h *hand) taken(size int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.sizes) > 0 && h.bytes+size > maxInHand {
		return false
	}
	h.sizes = append(h.sizes, size)
	h.bytes += size
	if len(h.sizes) == 1 {
		h.wind()
	}
	return true
}

// outcome notes that the first item has its outcome. The clock stands until it is sent.
func (h *hand) outcome() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clock != nil {
		h.clock.Stop()
		h.clock = nil
	}
}

// sent notes that the outcome of the first item has been sent.
func (h *hand) sent() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes -= h.sizes[0]
	h.sizes = h.sizes[1:]
	if h.clock == nil && len(h.sizes) > 0 {
		h.wind()
	}
	select {
	case h.free <- struct{}{}:
	default:
	}
}

// wind starts the clock. The lock is held.
func (h *hand) wind() {
	if h.stopped {
		return
	}
	if h.clock != nil {
		h.clock.Stop()
	}
	h.since = time.Now()
	var clock *time.Timer
	clock = trap.After(h.limit, "ending a wait for a body", nil, func() {
		h.mu.Lock()
		current, waited := h.clock == clock, time.Since(h.since)
		h.mu.Unlock()
		if current {
			h.late(waited)
		}
	})
	h.clock = clock
}

// stop stops the clock for good.
func (h *hand) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	if h.clock != nil {
		h.clock.Stop()
		h.clock = nil
	}
}
