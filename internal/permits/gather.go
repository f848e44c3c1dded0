package permits

import (
	"context"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/trap"
)

const (
	// gatherTick is the longest that a finished batch waits for others to be reported together with it.
	gatherTick = 40 * time.Millisecond
	// gatherFrom is how many batches must have finished within the last tick for the next one to wait.
	gatherFrom = 4
	// gathered is the most batches that wait.
	gathered = 64
	// lonelyTick is how long they wait while the worker has no other batch. The next one is there sooner, if there is one.
	lonelyTick = 8 * time.Millisecond
)

// Gather has batches that finish shortly after each other reported together. Every report may cost a
// workflow task, which is a third of what a small batch costs the server; reports that come together share one.
// Batches that finish less often than 100 times a second do not wait, nor do they wait for long if no other one runs.
type Gather struct {
	mu     sync.Mutex
	recent [gatherFrom]time.Time // when the last ones finished, a ring
	next   int
	tick   chan struct{} // closed at the end of the tick; nil: none has begun
	lonely *time.Timer   // ends the tick, while no other batch runs; nil otherwise, and once it has
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
	oldest := g.recent[g.next]
	g.recent[g.next], g.next = now, (g.next+1)%gatherFrom
	if g.tick != nil {
		return g.tick
	}
	if now.Sub(oldest) > gatherTick {
		return nil
	}
	tick := make(chan struct{})
	g.tick = tick
	trap.After(gatherTick, "ending a tick", nil, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.tick == tick {
			g.end()
		}
	})
	return tick
}

// end ends the tick, if there is one. The lock is held.
func (g *Gather) end() {
	if g.tick != nil {
		close(g.tick)
		g.tick = nil
	}
}

// alone notes whether all batches that the worker has wait to be reported.
func (g *Gather) alone(so bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case so && g.lonely == nil:
		var timer *time.Timer
		timer = trap.After(lonelyTick, "ending a tick", nil, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.lonely == timer {
				g.lonely = nil
				g.end()
			}
		})
		g.lonely = timer
	case !so && g.lonely != nil:
		g.lonely.Stop()
		g.lonely = nil
	}
}
