package timers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// Remote hands the requests of a worker that is a process of its own to the watchdog of another
// process. It is safe for concurrent use.
type Remote interface {
	// Acquire returns once the timer is held there, or cannot be. ctx bounds the wait.
	Acquire(ctx context.Context, t RemoteTimer) error
	// Release ends the scope's timer there; it need not wait for that.
	Release(scope string) error
}

// RemoteTimer is a timer to be held by another process.
type RemoteTimer struct {
	Scope      string
	After      time.Duration
	Signal     syscall.Signal // 0: the reaper's own way
	ReportOnly bool
}

// remoteLimit is how long the other process may take to answer (T12).
const remoteLimit = time.Second

// NewRemote returns a client whose timers are held by another process, which ends this one when a
// timer expires. Acquire waits for the answer, for at most a second; then it fails with an
// *[AwayError]. Held counts the timers as far as this client knows, and Condemned tells nothing.
func NewRemote(worker string, r Remote) *Client {
	return &Client{worker: worker, remote: &remote{to: r, held: map[string]uint64{}}}
}

// remote are the timers of a client as another process holds them.
type remote struct {
	to Remote

	mu       sync.Mutex
	held     map[string]uint64 // holdings by scope
	holdings uint64
}

// hold acquires a timer. One that is not named shares its scope's name with others of the same
// place that are held already, so it gets a name of its own.
func (r *remote) hold(c *Client, after time.Duration, t terms) (holding, error) {
	r.mu.Lock()
	scope := t.scope
	for i := 2; !t.named && r.held[scope] != 0; i++ {
		scope = fmt.Sprintf("%s (%d)", t.scope, i)
	}
	r.holdings++
	number := r.holdings
	r.held[scope] = number
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), remoteLimit)
	defer cancel()
	err := r.to.Acquire(ctx, RemoteTimer{Scope: scope, After: after, Signal: t.signal, ReportOnly: t.reportOnly})
	if err == nil {
		return holding{client: c, scope: scope, number: number}, nil
	}
	r.forget(scope, number)
	if errors.Is(err, context.DeadlineExceeded) {
		err = &AwayError{Worker: c.worker, Scope: scope, Late: remoteLimit}
	}
	return holding{}, err
}

// forget takes a holding back; false where the scope is not in that holding any more.
func (r *remote) forget(scope string, number uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if held, ok := r.held[scope]; !ok || number != 0 && held != number {
		return false
	}
	delete(r.held, scope)
	return true
}

// release ends the scope's timer; a number other than 0 says of which holding.
func (r *remote) release(scope string, number uint64) {
	if r.forget(scope, number) {
		_ = r.to.Release(scope) // where the other process is gone this one ends, too
	}
}

func (r *remote) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held)
}

func (r *remote) clear() {
	r.mu.Lock()
	var scopes []string
	for scope := range r.held {
		scopes = append(scopes, scope)
	}
	r.mu.Unlock()
	for _, scope := range scopes {
		r.release(scope, 0)
	}
}
