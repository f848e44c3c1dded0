package permits

import (
	"context"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/trap"
)

const (
	// gatherTick is the longest that a finished batch waits for others to be reported together with it.
	gatherTick = 20 * time.Millisecond
	// gathered is the most batches that wait.
	gathered = 64
)

// Gather has batches that finish shortly after each other reported together. Every report may cost a
// workflow task, which is a third of what a small batch costs the server; reports that come together share one.
// A batch waits only if another one has finished within the last tick.
type Gather struct {
	mu   sync.Mutex
	last time.Time     // when a batch finished
	tick chan struct{} // closed at the end of the tick; nil: none has begun
}

// Wait returns when the batch should be reported: at once, at the end of the tick, or when ctx is done.
func (g *Gather) Wait(ctx context.Context) {
	tick := g.join(time.Now())
	if tick == nil {
		return
	}
	select {
	case <-tick:
	case <-ctx.Done():
	}
}

func (g *Gather) join(now time.Time) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	soon := now.Sub(g.last) <= gatherTick
	g.last = now
	if g.tick == nil && soon {
		tick := make(chan struct{})
		g.tick = tick
		trap.After(gatherTick, "ending a tick", nil, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.tick = nil
			close(tick)
		})
	}
	return g.tick
}
