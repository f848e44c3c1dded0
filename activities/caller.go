package activities

import (
	"context"
	"errors"
	"math"
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
	block   []byte // all items as lines, where they lie so; nil otherwise

	calls, callItems, callMin, callMax     int64
	retries, crashes, expiries, isolations int64
}

// errEnding means that the batch should end before the items have their outcomes.
var errEnding = errors.New("the batch is ending")

// run adds an outcome for each of the items to the answer. It returns errEnding where it was told
// to end first: the outcomes are then those of the first items.
func (c *caller) run(items []Item) error {
	if len(items) == 0 {
		return nil
	}
	var fault *Fault
	for try := 1; try <= c.limits.Attempts; try++ {
		if try > 1 {
			c.retries++
		}
		// The first repetition comes at once: most faults of a call are the call's own.
		if try > 2 && !c.minder.wait(backoff(c.limits.Backoff, try-2)) {
			return errEnding
		}
		var err error
		if fault, err = c.call(items); fault == nil {
			return err
		}
	}
	if len(items) == 1 {
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
		fault, err := c.call(half)
		if fault != nil && len(half) == 1 {
			c.retries++
			if fault, err = c.call(half); fault != nil {
				c.answer.Fail(fault, tries+2)
				continue
			}
		}
		if fault != nil {
			err = c.halve(half, tries+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// call makes one call. It returns a fault where the call failed as a whole (the answer is then as
// it was), and errEnding where it ended early.
func (c *caller) call(items []Item) (*Fault, error) {
	mark := c.answer.mark()
	call := Call{
		Items: items, Answer: c.answer, minder: c.minder, block: c.block,
		ItemAttempts: c.limits.ItemAttempts, Backoff: c.limits.Backoff,
	}
	err := c.handler.Call(&call)
	c.minder.scope.Release()
	got := c.answer.count - mark.count
	if err == nil && c.answer.special > mark.special {
		c.countExpired(c.answer.outcomes[mark.outcomes:])
	}
	switch {
	case err == nil && got == len(items):
		c.count(got)
		return nil, nil
	case err == nil && got < len(items) && c.minder.ending.Load():
		if got > 0 {
			c.count(got)
		}
		return nil, errEnding
	}
	c.answer.undo(mark)
	if c.minder.over() || errors.Is(err, errEnded) {
		return nil, errEnding // it was cut off: not its own fault
	}
	if err == nil {
		err = LengthFault(len(items), got)
	}
	fault := FaultOf(err)
	switch fault.Kind {
	case job.KindCrash:
		c.crashes++
	case job.KindExpired:
		c.expiries++
	}
	return fault, nil
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
