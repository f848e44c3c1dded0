package calls

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Caller makes calls of one batch in a lane. Whatever a call does, the items that it was given end with
// one outcome each: a call that fails as a whole is retried, unless that cannot help, and then halved until the fault is
// on single items. An item that fails its call every time costs at most 2·log2(n) + attempts
// further calls in a call of n.
type Caller struct {
	Handler Handler
	Limits  wire.CallLimits
	Lane    *Lane
	Answer  *Answer
	Place   Place
	Block   []byte // all items as lines, if they lie so; nil otherwise
	Records bool   // the items are records of CSV
	Text    bool   // the items are lines of text
	Flat    bool   // a result may be any number of lines
	// tainted says that a call which was abandoned may still read its items.
	Tainted  bool
	Observer Observer
	Job      string
	JobRun   string // empty: handlers need not know it
	RootRun  string
	Stage    string // of a pipeline; empty: it has none
	// Record, which may be nil, takes the outcomes so far out of the answer, which is then empty. They are
	// those of the items next in order. It may return ErrNotNext instead.
	Record func() error
	Fit    *Fit // nil: calls are as large as the items that Run gets
	// Trials are what items have behind them; nil: nothing, and no item is called again later by itself.
	Trials *Trials
	Rules  *Rules   // of the job
	Brake  *Brake   // nil: each slow-down request is one to the job
	most   int      // items that a call should have after one that was full
	spare  *attempt // for the next call; nil: none
	// Hope, which may be nil, has the batch end early once it is lost.
	Hope *Hope
	// Spans makes spans of the calls. Nil: nothing does.
	Spans Spans
	// CarryOn, which may be nil, continues what has called Run in another goroutine, which it starts: rest returns
	// there what Run would have. It is called if user's code, for which Run uses its own goroutine then (see
	// [Lane.In]), does not give that back.
	CarryOn func(rest func() error)

	// Totals count calls and what went wrong with them; outcomes are counted by whoever records them.
	job.Totals
	// Times are those of the calls in Totals.
	Times calltimes.Timer
}

// ErrEnding means that the batch should end before the items have their outcomes.
var ErrEnding = errors.New("the batch is ending")

// ErrNotNext says that outcomes cannot be recorded for some time, because items before them have none: further
// items of the call are called again later.
var ErrNotNext = errors.New("items before these have no outcome")

// ErrKept says that the goroutine is not the caller's any more: it must return and touch nothing. See Caller.CarryOn.
var ErrKept = errors.New("the handler has kept the goroutine")

// Run adds an outcome for each of the items to the answer, or a hole if it is to be called again later. It
// returns ErrEnding if the batch has to end first: the outcomes are then those of the first items. It may return
// ErrKept, or end its goroutine, if there is a CarryOn.
func (c *Caller) Run(items []Item) error {
	if c.CarryOn == nil || !c.Handler.Traits().Inside || len(items) == 0 {
		return c.run(items, nil)
	}
	if !c.takeTurn(items) {
		return ErrEnding
	}
	first := c.begin(items, false)
	if !c.here(first) {
		return ErrKept
	}
	if first.err == nil {
		c.spare = first // nobody has it any more
	}
	return c.run(items, first)
}

// run is Run after the first attempt, if there has been one.
func (c *Caller) run(items []Item, first *attempt) error {
	for try := 1; len(items) > 0; try++ {
		if try > 1 {
			c.Retries++
		}
		// The first repetition comes at once: most faults of a call are the call's own.
		if try > 2 && !c.Lane.wait(retryDelay(c.Limits.Backoff, try-2)) {
			return ErrEnding
		}
		var fault *Fault
		var err error
		if items, fault, err = c.call(items, false, first); fault == nil {
			return err
		}
		first = nil
		rule := c.Rules.Of(fault)
		switch {
		case len(items) == 0:
		case fault.Full:
			return c.inPieces(items)
		case c.postponed(rule, items, fault, try):
			return nil
		case rule != nil || fault.Final || try == c.Limits.Attempts:
			return c.narrow(items, fault, try)
		}
	}
	return nil
}

// inPieces runs the items that a full call has left, fewer at once.
func (c *Caller) inPieces(items []Item) error {
	for len(items) > 0 {
		if c.Lane.watch.Ending.Load() {
			return ErrEnding
		}
		piece := items[:min(c.most, len(items))]
		if err := c.run(piece, nil); err != nil {
			return err
		}
		items = items[len(piece):]
	}
	return nil
}

// maxCollateralRetries is how often in a row a call may be the victim of another one's fault.
const maxCollateralRetries = 100

// call makes one call, unless made has been made already, and again if it was only the victim of another. It returns
// a fault if the call failed as a whole, with the items that have no outcome, and ErrEnding if it ended
// early.
func (c *Caller) call(items []Item, isolating bool, made *attempt) (rest []Item, fault *Fault, err error) {
	tries, victim := 1+c.tried(items), 0
	for {
		if made == nil {
			if room, err := c.makeRoom(); err != nil {
				return items, nil, err
			} else if !room {
				c.putOff(items, 0)
				return nil, nil, nil
			}
			if !c.takeTurn(items) {
				return items, nil, ErrEnding
			}
			made = c.begin(items, isolating)
			made.err = c.apart(&made.Call)
		}
		rest, fault, err = c.conclude(made)
		made = nil
		c.countFault(fault)
		switch {
		case fault == nil:
			return rest, nil, err
		case fault.Collateral && victim < maxCollateralRetries:
			victim++
		case !fault.FirstOnly || len(rest) == 0:
			return rest, fault, nil
		default:
			if len(rest) < len(items) {
				tries = 1 + c.tried(rest) // the next call begins with it
			}
			rule := c.Rules.Of(fault)
			if rule == nil && tries < c.Limits.ItemAttempts {
				c.Trials.note(rest[0].Ordinal, tries)
				tries++
				break
			}
			if !c.postponed(rule, rest[:1], fault, 1) {
				c.failAlone(fault, tries)
			}
			if rest = rest[1:]; len(rest) == 0 {
				return nil, nil, nil
			}
			tries = 1 + c.tried(rest)
		}
		items = rest
	}
}

// tried returns how often the first of the items has failed.
func (c *Caller) tried(items []Item) int { return c.Trials.Of(items[0].Ordinal).Tries }

// makeRoom records what has been answered if that takes much memory. It returns false if it cannot, because items
// before it, or among it, are called again later: no further call should be made for now.
func (c *Caller) makeRoom() (ok bool, err error) {
	switch {
	case c.Record == nil || c.Answer.size() < recordedAt:
		return true, nil
	case c.Answer.Holes() > 0:
		return false, nil
	}
	if err := c.Record(); !errors.Is(err, ErrNotNext) {
		return true, err
	}
	return false, nil
}

// putOff has the items called again after a wait that counts for nothing.
func (c *Caller) putOff(items []Item, after time.Duration) {
	due := time.Now().Add(after)
	for _, item := range items {
		c.Trials.wait(item.Ordinal, due)
		c.Answer.hold(nil)
	}
}

// failAlone gives an item its outcome that made its call fail, and it alone.
func (c *Caller) failAlone(fault *Fault, tries int) {
	c.Answer.Fail(fault, tries)
	c.Alone++
	if c.Hope.failed() {
		c.Lane.watch.EndSoon()
	}
}

// begin begins a call.
func (c *Caller) begin(items []Item, isolating bool) *attempt {
	a := c.spare
	if c.spare = nil; a == nil {
		a = &attempt{of: c}
	}
	a.items, a.mark, a.err = items, c.Answer.mark(), nil
	a.free.Store(false)
	a.Call = Call{
		Items: items, Answer: c.Answer, lane: c.Lane, block: c.Block, Records: c.Records, Text: c.Text, Flat: c.Flat, Place: c.Place,
		Isolating:    isolating,
		ItemAttempts: c.Limits.ItemAttempts, Attempts: c.Limits.Attempts, Backoff: c.Limits.Backoff, firm: &a.free, before: a.mark.count,
		Job: c.Job, Run: c.JobRun, RootRun: c.RootRun, Stage: c.Stage, trials: c.Trials, rules: c.Rules, brake: c.Brake,
	}
	c.Answer.admit(&a.Call)
	c.Observer.CallBegan(c.Job)
	c.Brake.began()
	c.Lane.slowed.Store(0)
	c.Lane.braked.Store(false)
	if len(items) > 0 {
		c.beginSpan(a, items[0].Ordinal, len(items))
	}
	a.began = time.Now()
	return a
}

// conclude takes what the call came to. It returns the items that have no outcome, and why.
func (c *Caller) conclude(a *attempt) ([]Item, *Fault, error) {
	items, call, mark, err := a.items, &a.Call, a.mark, a.err
	stats := CallStats{Job: c.Job, Stage: c.Stage, Took: time.Since(a.began) - call.waited}
	defer func() { c.Observer.CallEnded(stats); call.endSpan(stats) }()
	c.Brake.ended()
	c.Lane.afterCall()
	c.Expiries += call.expiries
	got := c.Answer.Count - mark.count
	if c.later(a, got) {
		got, err = c.Answer.Count-mark.count, nil
	}
	short := got < len(items) && !(err == nil && c.Lane.watch.Ending.Load())
	switch {
	case err != nil && call.Keep && got <= len(items):
		c.Answer.keep()
	case err != nil || short || got > len(items):
		c.Answer.undo(mark)
	case got < len(items): // it has ended early, and may have been read in part
		c.Answer.keep()
	}
	kept := c.Answer.Len() - (mark.count - mark.later)
	rest := items[c.Answer.Count-mark.count:]
	if c.Answer.Special > mark.special {
		stats.Failed = c.countFailed(c.Answer.outcomes[mark.outcomes:])
	}
	if kept > stats.Failed {
		c.Hope.succeeded()
	}
	if kept > 0 {
		n := int64(kept)
		c.Totals.Add(job.Totals{Calls: 1, CallItems: n, CallMin: n, CallMax: n})
		c.Times.Add(stats.Took)
		c.Fit.learn(kept, c.Answer.size()-mark.buf-mark.texts)
	}
	stats.Items, stats.SlowDown, stats.Refused = kept, c.Lane.braked.Load(), c.Lane.slowed.Load() > 0
	c.Brake.answered(c.units(kept, len(items)))
	if failure := c.Lane.watch.Failure(); failure != nil {
		stats.Cut = true
		return rest, nil, failure
	}
	if unbegun, ok := errors.AsType[*UnbegunError](err); ok {
		stats.Cut = true
		c.Lane.watch.giveBack(unbegun)
		return rest, nil, ErrEnding
	}
	switch {
	case err == nil && got == len(items):
		c.Place.Answered()
		stats.Cut = kept == 0 && got > 0
		return nil, nil, nil
	case err == nil && !short && got < len(items), c.Lane.watch.over(), errors.Is(err, ErrEnded), errors.Is(err, ErrNoSlot):
		stats.Cut = true
		return rest, nil, ErrEnding // not its own fault
	case err == nil:
		err = LengthFault(len(items), got)
	}
	fault := FaultOf(err)
	if fault.Full {
		c.most = max(1, cmp.Or(len(items)-len(rest), len(items)/2))
		c.Fit.learn(c.most, AnswerLimit)
		return rest, fault, nil
	}
	stats.Fault = fault.Kind
	return rest, fault, nil
}

// later has items of a call called again of which got have been answered, if the call asks for that. It returns
// false if it does not.
func (c *Caller) later(a *attempt, got int) bool {
	if c.Trials == nil || got >= len(a.items) {
		return false
	}
	if a.err == nil {
		slow := time.Duration(c.Lane.slowed.Load())
		if slow > 0 {
			c.slowDown(a.items[got:], got > 0, slow)
		}
		return slow > 0
	}
	request, ok := errors.AsType[*RetryAfterError](a.err)
	if !ok {
		return false
	}
	if !a.Keep {
		c.Answer.undo(a.mark)
		got = 0
	}
	c.Answer.keep()
	for i := got; i < len(a.items); i++ {
		a.Postpone(i, request.fault(), a.Tried(i))
	}
	return true
}

// slowDown takes in that items of a call, others of which may have been answered, have no outcome because it
// asks to slow down, for so long. They are called again: the first one after that time, as it was refused, and
// all if the call was as a whole. Items that have not been begun are the batch's rest if it ends.
func (c *Caller) slowDown(items []Item, answered bool, after time.Duration) {
	refused := len(items)
	if answered || c.Handler.Traits().OneByOne {
		refused = 1
	}
	c.Answer.keep()
	c.putOff(items[:refused], after)
	if !c.Lane.watch.Ending.Load() {
		c.putOff(items[refused:], 0)
	}
}

// units returns how many answers a call counts as beside requests to slow down: as many as items if these are called
// one by one, as is evident if only some of them have an answer, and one otherwise.
func (c *Caller) units(kept, items int) int {
	if c.Handler.Traits().OneByOne || c.Lane.slowed.Load() > 0 && kept < items {
		return kept
	}
	return min(kept, 1)
}

// CauseOf returns why a call's context was cancelled, or err if it was not.
func CauseOf(ctx context.Context, err error) error {
	return cmp.Or(context.Cause(ctx), err)
}

// narrow gives a single item the fault as its outcome, and halves several. made is how many calls have been made of them
// that are not among their tries.
func (c *Caller) narrow(items []Item, fault *Fault, made int) error {
	if len(items) == 1 {
		c.failAlone(fault, c.tried(items)+made)
		return nil
	}
	return c.halve(items, made)
}

// halve gives each half one try and a single item one more, unless a rule says otherwise; made is as in narrow.
func (c *Caller) halve(items []Item, made int) error {
	c.Isolations++
	middle := len(items) / 2
	for _, half := range [][]Item{items[:middle], items[middle:]} {
		if c.Lane.watch.Ending.Load() {
			return ErrEnding
		}
		rest, fault, err := c.call(half, true, nil)
		tries := made + 1
		if fault != nil && !fault.Full && !fault.Final && len(rest) == 1 && c.Rules.Of(fault) == nil {
			c.Retries++
			tries++
			rest, fault, err = c.call(rest, true, nil)
		}
		switch {
		case fault == nil || len(rest) == 0:
		case fault.Full:
			err = c.inPieces(rest)
		case c.postponed(c.Rules.Of(fault), rest, fault, tries):
		default:
			err = c.narrow(rest, fault, tries)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Caller) countFault(fault *Fault) {
	if fault != nil && fault.Summed {
		c.Summed++
	}
	switch {
	case fault == nil || fault.Counted:
	case fault.Kind == job.KindCrash:
		c.Crashes++
	case fault.Kind == job.KindExpired:
		c.Expiries++
	}
}

// countFailed returns how many items have failed, and counts those that had their own timer and let it expire.
func (c *Caller) countFailed(answered []Span) (failed int) {
	for _, o := range answered {
		if o.Fault == nil || o.Later {
			continue
		}
		failed++
		if o.Fault.Kind == job.KindExpired {
			c.Expiries++
		}
	}
	return failed
}
