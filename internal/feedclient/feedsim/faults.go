package feedsim

import (
	"maps"
	"time"

	"github.com/stint-run/stint/internal/feedclient"
	"github.com/stint-run/stint/internal/wire"
)

// seal seals the open leg. The job's memo names the next one a little later.
func (f *Feed) seal() {
	l := f.last()
	l.sealed = true
	f.addLeg("run")
	next := len(f.legs) - 1
	time.AfterFunc(30*time.Millisecond, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.memo = max(f.memo, next)
	})
}

// Seal seals the open leg.
func (f *Feed) Seal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seal()
	f.settle(f.legs[len(f.legs)-2])
}

// KillLeg ends the run of the open leg: its items are lost, and another one opens.
func (f *Feed) KillLeg() {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.last()
	f.Witness.Killed++
	f.seal()
	f.drop(l)
	l.end(feedclient.ErrCut)
}

// Restart ends all that is under way with an error; for as long as it takes, nothing gets through.
func (f *Feed) Restart(takes time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.restart)
	f.restart = make(chan struct{})
	f.down = true
	f.Witness.Restarts++
	time.AfterFunc(takes, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.down = false
	})
}

// Serve sets whether any worker is there.
func (f *Feed) Serve(served bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.served = served
	close(f.restart)
	f.restart = make(chan struct{})
}

// Stop stops the feed: what waits has no outcome.
func (f *Feed) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = stopped
	f.queue = nil
	for _, l := range f.legs {
		for len(l.waiting) > 0 {
			u := l.waiting[0]
			if len(l.results[u.client]) == 0 {
				u.answer.Ended = wire.RefusedStopping
			}
			l.answer(u)
		}
	}
}

// Terminate ends the feed and all its legs, at once and without a word.
func (f *Feed) Terminate() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = stopped
	f.queue = nil
	for _, l := range f.legs {
		l.over = true
		for len(l.waiting) > 0 {
			l.waiting[0].err = feedclient.ErrCut
			l.close(l.waiting[0])
		}
	}
}

// Forget makes the open leg forget the results that nobody has taken, as if they had been kept for long enough.
func (f *Feed) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.legs {
		l.results = map[string][]wire.ItemResult{}
	}
}

// drop removes the waiting items of a leg.
func (f *Feed) drop(l *leg) {
	var others []*item
	for _, it := range f.queue {
		if it.leg == l {
			f.backlog--
			f.bytes -= int64(len(it.value))
			l.open--
			continue
		}
		others = append(others, it)
	}
	f.queue = others
}

// Backlog returns how many items are accepted and unfinished.
func (f *Feed) Backlog() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.backlog
}

// Session returns the open session.
func (f *Feed) Session() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.session
}

// Seen returns a copy of the counts of the witness.
func (f *Feed) Seen() Witness {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.Witness
	seen.Accepted, seen.Executed = maps.Clone(seen.Accepted), maps.Clone(seen.Executed)
	return seen
}
