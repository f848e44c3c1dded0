package feedclient

import (
	"context"
	"errors"
	"time"
)

// seekAfter looks for the successor of a leg that takes no more items, the number of which may be known (0: it is not). The
// lock is held.
func (c *Client) seekAfter(l *leg, number int) {
	if c.open != l {
		return // that has been found already
	}
	c.open = nil
	c.seek(l, number)
}

// seek finds the leg that takes items, which is not the stale one. The lock is held.
func (c *Client) seek(stale *leg, number int) {
	if c.seeking {
		return
	}
	c.seeking = true
	c.spawn(func() {
		found, err := c.locate(c.ctx, stale, number)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seeking = false
		switch {
		case c.released:
		case err != nil:
			c.failQueued(callersError(err))
		default:
			c.open = c.legOf(found)
		}
		c.pump()
	})
}

// callersError is what callers get if there is no leg to send to.
func callersError(err error) error {
	if ended, ok := errors.AsType[*EndedError](err); ok {
		return ended.Err
	}
	return err
}

// locate returns the leg that takes items, which is not the stale one unless that is not known to have ended. It repeats
// until that is known, or the context ends. Errors: *EndedError, *FatalError, ErrUnserved, the context's cause.
func (c *Client) locate(ctx context.Context, stale *leg, number int) (Leg, error) {
	checked, alone := time.Now(), 0
	for tries := 1; ; tries++ {
		limited, cancel := context.WithTimeout(ctx, attemptLimit)
		found, err := c.look(limited, number)
		cancel()
		var ended *EndedError
		var fatal *FatalError
		switch {
		case err == nil && (stale == nil || found != stale.Leg || tries > staleTries && !c.hasEnded(stale)):
			return found, nil
		case errors.As(err, &ended), errors.As(err, &fatal):
			return Leg{}, err
		case errors.Is(err, ErrGone) && tries >= staleTries:
			number = 0 // the number is of no use: a job that has been started anew begins with another
		}
		if time.Since(checked) > attemptLimit {
			checked = time.Now()
			if alone++; !c.unservedNow(ctx) {
				alone = 0
			}
			if alone >= unservedAfter {
				return Leg{}, ErrUnserved
			}
		}
		if pause(ctx, tries) != nil {
			return Leg{}, context.Cause(ctx)
		}
	}
}

// staleTries is how often a look-up may return what is known to be out of date: the next leg stands by before the job
// names it.
const staleTries = 3

func (c *Client) look(ctx context.Context, number int) (Leg, error) {
	if number > 0 {
		return c.legs.Find(ctx, number)
	}
	return c.legs.Open(ctx)
}
