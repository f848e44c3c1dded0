package worker

import (
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/limits"
)

// refusals finds how long to wait after refusals that state no wait: twice as long each time, until there is an
// answer. It is safe for concurrent use.
type refusals struct {
	mu    sync.Mutex
	row   int
	until time.Time // what was under way before is refused, too, or answered
}

func (r *refusals) wait(first time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	fresh := now.After(r.until)
	if fresh {
		r.row++
	}
	d := backoff.Delay(first, r.row, limits.MaxBackoff)
	if fresh {
		r.until = now.Add(d)
	}
	return d
}

func (r *refusals) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().After(r.until) {
		r.row = 0
	}
}

// refusedKey is a request that a server has refused because of its limits.
type refusedKey struct {
	run, stage string
	first      int64 // ordinal of its first item
	items      int
}

// outcasts finds requests that are refused again and again while others are answered: it is not the rate, then. It is
// safe for concurrent use.
type outcasts struct {
	mu      sync.Mutex
	answers int64
	waiting map[refusedKey]refused // of requests whose last answer was one
}

type refused struct {
	times   int
	since   time.Time
	answers int64 // of all requests before the first refusal
}

// A request has failed after so many refusals, over so long, in which so many others were answered.
const (
	mostRefusals    = 20
	longestRefusal  = 10 * time.Minute
	answersBesideIt = 100
)

// refused notes a refusal. It reports whether the request has failed.
func (p *outcasts) refused(key refusedKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, known := p.waiting[key]
	if !known {
		r = refused{since: time.Now(), answers: p.answers}
	}
	r.times++
	if r.times > mostRefusals && time.Since(r.since) > longestRefusal && p.answers-r.answers >= answersBesideIt {
		delete(p.waiting, key)
		return true
	}
	if p.waiting == nil {
		p.waiting = map[refusedKey]refused{}
	}
	p.waiting[key] = r
	return false
}

// answered notes that a request has an answer, whichever.
func (p *outcasts) answered(key refusedKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers++
	delete(p.waiting, key)
}
