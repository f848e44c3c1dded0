package watchdog

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const interval = 100 * time.Millisecond

// watch is a running watchdog and its events so far.
type watch struct {
	*Watchdog
	mu     sync.Mutex
	events []Event
}

// start starts a watchdog, which is stopped with the test.
func start(t *testing.T, o Options) *watch {
	t.Helper()
	w := &watch{}
	if o.OnEvent == nil {
		o.OnEvent = w.note
	}
	w.Watchdog = New(o)
	w.Start()
	t.Cleanup(w.Stop)
	return w
}

func (w *watch) note(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// reported are the events of these kinds, of all if there are none, once nothing else can happen now.
func (w *watch) reported(kinds ...EventKind) []Event {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var reported []Event
	for _, e := range w.events {
		matches := len(kinds) == 0
		for _, k := range kinds {
			matches = matches || k == e.Kind
		}
		if matches {
			reported = append(reported, e)
		}
	}
	return reported
}

// forget forgets the events so far.
func (w *watch) forget() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = nil
}

func (w *watch) kinds() []EventKind {
	var kinds []EventKind
	for _, e := range w.reported() {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// reaper notes what it is asked to do, and when.
type reaper struct {
	do func(ctx context.Context, e Expiry) error // nil: succeeds

	mu      sync.Mutex
	done    []reap
	now     int // under way
	most    int // of these, at once
	settles int
}

type reap struct {
	Expiry
	when time.Time
}

func (r *reaper) Reap(ctx context.Context, e Expiry) error {
	r.mu.Lock()
	r.done = append(r.done, reap{e, time.Now()})
	r.now++
	r.most = max(r.most, r.now)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.now--
	}()
	if r.do == nil {
		return nil
	}
	return r.do(ctx, e)
}

// reaps are the calls so far, once nothing else can happen now.
func (r *reaper) reaps() []reap {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.done)
}

// atOnce is the most calls that there have been at the same time.
func (r *reaper) atOnce() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// settled is how often it has been called to settle.
func (r *reaper) settled() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settles
}

// settler settles before it reaps.
type settler struct {
	reaper
	settle func(ctx context.Context)
}

func (s *settler) Settle(ctx context.Context) {
	s.mu.Lock()
	s.settles++
	s.mu.Unlock()
	s.settle(ctx)
}

// inBubble runs a test with its own clock.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}
