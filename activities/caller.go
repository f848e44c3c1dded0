package activities

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/job"
)

// CallLimits say how calls are made and tried again.
type CallLimits struct {
	Timeout      time.Duration `json:"timeout,omitempty"` // of one call; 0: none
	Attempts     int           `json:"attempts"`          // of a call that fails as a whole, before it is halved
	ItemAttempts int           `json:"item_attempts"`
	Backoff      time.Duration `json:"backoff"`
}

// caller makes the calls of one batch. Whatever a call does, the items that it was given end with
// one outcome each: a call that fails as a whole is tried again, and then halved until the fault is
// on single items. An item that fails its call every time costs at most 2·log2(n) + attempts
// further calls in a call of n.
type caller struct {
	handler Handler
	limits  CallLimits
	minder  *minder
	answer  *Answer
	slot    Slot
	block   []byte // all items as lines, where they lie so; nil otherwise
	// tainted says that a call which was abandoned may still read its items.
	tainted  bool
	observer Observer
	job      string

	calls, callItems, callMin, callMax     int64
	retries, crashes, expiries, isolations int64
}

// errEnding means that the batch should end before the items have their outcomes.
var errEnding = errors.New("the batch is ending")

// run adds an outcome for each of the items to the answer. It returns errEnding where it was told
// to end first: the outcomes are then those of the first items.
func (c *caller) run(items []Item) error {
	var fault *Fault
	for try := 1; try <= c.limits.Attempts; try++ {
		if len(items) == 0 {
			return nil
		}
		if try > 1 {
			c.retries++
		}
		// The first repetition comes at once: most faults of a call are the call's own.
		if try > 2 && !c.minder.wait(backoff(c.limits.Backoff, try-2)) {
			return errEnding
		}
		var err error
		if items, fault, err = c.call(items, false); fault == nil {
			return err
		}
	}
	switch len(items) {
	case 0:
		return nil
	case 1:
		c.answer.Fail(fault, c.limits.Attempts)
		return nil
	}
	return c.halve(items, c.limits.Attempts)
}

// halve gives each half one try and a single item one more; tries have been made of the whole.
func (c *caller) halve(items []Item, tries int) error {
	c.isolations++
	middle := len(items) / 2
	for _, half := range [][]Item{items[:middle], items[middle:]} {
		if c.minder.ending.Load() {
			return errEnding
		}
		rest, fault, err := c.call(half, true)
		if fault != nil && len(rest) == 1 {
			c.retries++
			if rest, fault, err = c.call(rest, true); fault != nil && len(rest) == 1 {
				c.answer.Fail(fault, tries+2)
				continue
			}
		}
		if fault != nil && len(rest) > 0 {
			err = c.halve(rest, tries+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// innocent is how often in a row a call may be the victim of another one's fault.
const innocent = 100

// call makes one call, and again where it was only the victim of another. It returns a fault where
// the call failed as a whole, with the items that have no outcome, and errEnding where it ended
// early.
func (c *caller) call(items []Item, isolating bool) (rest []Item, fault *Fault, err error) {
	tries, victim := 1, 0
	for {
		rest, fault, err = c.once(items, isolating)
		c.countFault(fault)
		switch {
		case fault == nil:
			return rest, nil, err
		case fault.Collateral && victim < innocent:
			victim++
		case !fault.FirstOnly || len(rest) == 0:
			return rest, fault, nil
		case len(rest) == len(items) && tries < c.limits.ItemAttempts:
			tries++
		case len(rest) < len(items) && c.limits.ItemAttempts > 1:
			tries = 2 // the next call begins with it
		default:
			c.answer.Fail(fault, tries)
			if rest = rest[1:]; len(rest) == 0 {
				return nil, nil, nil
			}
			tries = 1
		}
		items = rest
	}
}

func (c *caller) countFault(fault *Fault) {
	switch {
	case fault == nil:
	case fault.Kind == job.KindCrash:
		c.crashes++
	case fault.Kind == job.KindExpired:
		c.expiries++
	}
}

func (c *caller) once(items []Item, isolating bool) ([]Item, *Fault, error) {
	mark := c.answer.mark()
	call := &Call{
		Items: items, Answer: c.answer, minder: c.minder, block: c.block, Slot: c.slot, Isolating: isolating,
		ItemAttempts: c.limits.ItemAttempts, Backoff: c.limits.Backoff, firm: &atomic.Bool{}, before: mark.count,
	}
	c.answer.admit(call)
	c.observer.CallBegan(c.job)
	stats := CallStats{Job: c.job}
	began := time.Now()
	err := c.make(call)
	stats.Took = time.Since(began)
	defer func() { c.observer.CallEnded(stats) }()
	c.minder.scope.Release()
	c.minder.afterCall()
	got := c.answer.count - mark.count
	short := got < len(items) && !(err == nil && c.minder.ending.Load())
	switch {
	case err != nil && call.Keep && got <= len(items):
		c.answer.keep()
	case err != nil || short || got > len(items):
		c.answer.undo(mark)
	case got < len(items): // it has ended early, and may have been read in part
		c.answer.keep()
	}
	kept := c.answer.count - mark.count
	if c.answer.special > mark.special {
		c.countExpired(c.answer.outcomes[mark.outcomes:])
	}
	if kept > 0 {
		c.count(kept)
	}
	stats.Items = kept
	rest := items[kept:]
	switch {
	case err == nil && got == len(items):
		c.slot.Answered()
		return nil, nil, nil
	case err == nil && !short && got < len(items), c.minder.over(), errors.Is(err, errEnded), errors.Is(err, ErrNoSlot):
		stats.Cut = true
		return rest, nil, errEnding // not its own fault
	case err == nil:
		err = LengthFault(len(items), got)
	}
	fault := FaultOf(err)
	stats.Fault = fault.Kind
	return rest, fault, nil
}

func (c *caller) count(items int) {
	n := int64(items)
	if c.calls == 0 {
		c.callMin = math.MaxInt64
	}
	c.calls++
	c.callItems += n
	c.callMin, c.callMax = min(c.callMin, n), max(c.callMax, n)
}

// countExpired counts the items that had a timer of their own and let it expire.
func (c *caller) countExpired(answered []outcome) {
	for _, o := range answered {
		if o.fault != nil && o.fault.Kind == job.KindExpired {
			c.expiries++
		}
	}
}

// CauseOf returns why a call's context was cancelled, or err where it was not.
func CauseOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
