package watchdog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stint-run/stint/timers"
)

// Remote hands the requests of a worker that is a separate process to the watchdog of another
// process. It is safe for concurrent use.
type Remote interface {
	// Acquire returns once the timer is held there, under its scope's name, or cannot be. ctx bounds the wait.
	Acquire(ctx context.Context, after time.Duration, t timers.Timer) error
	// Release ends the scope's timer there; it need not wait for that.
	Release(scope string) error
}

// NewRemote returns a guard whose timers are held by another process, which ends this one when a timer expires. It
// waits for the answer, for at most a second; then it fails with an *[timers.AwayError], and the scope is released,
// since the timer may be held there all the same.
func NewRemote(worker string, r Remote) timers.Guard {
	return &remote{worker: worker, to: r, held: map[string]uint64{}}
}

// remote are the timers of a worker as another process holds them.
type remote struct {
	worker string
	to     Remote

	mu       sync.Mutex
	held     map[string]uint64 // holdings by scope; 0: it is being released
	holdings uint64
}

// Hold acquires a timer. If it has no name, others of the same place may be held under its scope's name, so it gets its
// own name.
func (r *remote) Hold(after time.Duration, t timers.Timer) (timers.Holding, uint64, error) {
	h, number, before := r.note(t)
	ctx, cancel := context.WithTimeout(context.Background(), remoteLimit)
	defer cancel()
	t.Scope = h.scope
	err := r.to.Acquire(ctx, after, t)
	switch {
	case err == nil:
		return h, number, nil
	case errors.Is(err, context.DeadlineExceeded):
		// The request is on its way, and may be granted after this has returned.
		r.release(h.scope, number)
		err = &timers.AwayError{Worker: r.worker, Scope: h.scope, Late: remoteLimit}
	default:
		r.restore(h.scope, number, before)
	}
	return nil, 0, err
}

// remoteHolding is a timer that another process holds.
type remoteHolding struct {
	remote *remote
	scope  string
}

// Release is that of [timers.Holding].
func (h *remoteHolding) Release(number uint64) { h.remote.release(h.scope, number) }

// note notes a holding that is about to be requested, and returns the one that it replaces, or 0.
func (r *remote) note(t timers.Timer) (h *remoteHolding, number, before uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	scope := t.Scope
	before, taken := r.held[scope]
	for i := 2; !t.Named && taken; i++ {
		scope = fmt.Sprintf("%s (%d)", t.Scope, i)
		before, taken = r.held[scope]
	}
	r.holdings++
	r.held[scope] = r.holdings
	return &remoteHolding{r, scope}, r.holdings, before
}

// restore takes back a holding that was refused: the other process still holds the previous one.
func (r *remote) restore(scope string, number, before uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.held[scope] != number:
	case before == 0:
		delete(r.held, scope)
	default:
		r.held[scope] = before
	}
}

// release ends the scope's timer, if it is that of the holding still. Until the request
// is on its way, the scope's name is not given to another: it would end that one's timer.
func (r *remote) release(scope string, number uint64) {
	r.mu.Lock()
	if r.held[scope] != number {
		r.mu.Unlock()
		return
	}
	r.held[scope] = 0
	r.mu.Unlock()
	_ = r.to.Release(scope) // if the other process is gone this one ends, too
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[scope] == 0 {
		delete(r.held, scope)
	}
}

// remoteLimit is how long the other process may take to answer (T12).
const remoteLimit = time.Second
