package watchdog

import (
	"container/heap"
	"math"
	"syscall"
	"time"
)

// timer is one holding of a scope. Released ones are used again by their client.
type timer struct {
	client     *Client
	scope      string
	named      bool // it is found by its scope
	after      time.Duration
	signal     syscall.Signal
	reportOnly bool

	// holding identifies this holding among all of the client; 0: none.
	holding  uint64
	deadline time.Duration // on the watchdog's clock
	index    int           // among those that run; -1: it has expired
	expiry   uint64        // how many of the client's timers expired up to this one
	reported bool          // its expiry has been reported
}

// never is later than any deadline.
const never = time.Duration(math.MaxInt64)

// deadline is when a timer that is acquired now expires.
func deadline(now, after time.Duration) time.Duration {
	after = max(after, 0)
	if after >= never-now {
		return never - 1
	}
	return now + after
}

// running is a heap of timers, the one that expires first on top.
type running []*timer

var _ heap.Interface = (*running)(nil)

func (r running) Len() int { return len(r) }

func (r running) Less(i, j int) bool {
	if r[i].deadline != r[j].deadline {
		return r[i].deadline < r[j].deadline
	}
	return r[i].holding < r[j].holding
}

func (r running) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].index, r[j].index = i, j
}

// Push takes a timer.
func (r *running) Push(x any) {
	t := x.(*timer)
	t.index = len(*r)
	*r = append(*r, t)
}

// Pop gives the last timer.
func (r *running) Pop() any {
	last := len(*r) - 1
	t := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	t.index = -1
	return t
}
