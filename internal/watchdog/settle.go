package watchdog

import (
	"context"
	"time"
)

// Settler is implemented by a Reaper whose worker sends its requests from another process.
type Settler interface {
	// Settle returns once all requests that the worker had sent when Settle was called have been
	// applied, so that a release that was sent in time saves the worker, however long it was on
	// its way. It is called before the worker is reaped. After 1 s ctx is cancelled, and the watchdog does not wait any longer:
	// a Settle that hangs must not save a worker that hangs. If the last call of Settle has not returned, it is not called again.
	Settle(ctx context.Context)
}

const settleLimit = time.Second

// settle waits until what the worker has sent so far is applied.
func (a *attempt) settle() {
	c := a.client
	s, ok := c.reaper.(Settler)
	if !ok || !c.beginSettling() {
		return
	}
	ctx, cancel := context.WithTimeout(a.run.ctx, settleLimit)
	settled := make(chan struct{})
	a.run.reaping.Go(func() {
		defer cancel()
		defer close(settled)
		returned := false
		defer func() {
			c.endSettling()
			if p := recover(); !returned {
				c.emit(EventReaperPanicked, Expiry{Worker: c.worker}, false, panicked("settling", p))
			}
		}()
		s.Settle(ctx)
		returned = true
	})
	select {
	case <-settled:
	case <-ctx.Done():
	}
}

func (c *Client) beginSettling() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settling {
		return false
	}
	c.settling = true
	return true
}

func (c *Client) endSettling() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settling = false
}
