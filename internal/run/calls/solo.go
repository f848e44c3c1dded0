package calls

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/job"
)

// Solo makes calls of a handler outside of a batch: in its own process, whose worker has cut
// the calls, tries them again and looks after their time. One goroutine may use it.
type Solo struct {
	handler Handler
	watch   *Watch
	lane    *Lane
	answer  Answer
	items   []Item
	// Spans gives the calls their spans. Nil: they have none.
	Spans Spans
}

// NewSolo returns a Solo. ctx carries what the handler's own context should, and the limits say how the handler sees a
// stop coming, and asks for one. The caller must Close it.
func NewSolo(ctx context.Context, h Handler, stop WatchLimits) *Solo {
	stop.never, stop.Allowance = true, NewAllowance(nil)
	watch := StartWatch(ctx, stop)
	return &Solo{handler: h, watch: watch, lane: watch.Lane()}
}

// Close ends it.
func (s *Solo) Close() {
	s.watch.Stop()
	s.lane.Close()
}

// Outcome is the outcome of one item: a value, or no result, or a fault.
type Outcome struct {
	Value []byte // JSON; of a Solo it is valid until the next call
	Drop  bool
	Fault *Fault
	Tries int  // failed ones, if there is a fault
	Later bool // it is called again, because of the fault, which then may be nil
	Apart bool // if it is called again: after a wait of its own, and so by another call
}

// Add adds the outcome of the item at this index, the next in order, to the call's answer, or has it called again.
func (c *Call) Add(i int, o Outcome) {
	switch {
	case o.Later:
		c.Postpone(i, o.Fault, o.Tries)
	case o.Fault != nil:
		c.Answer.Fail(o.Fault, o.Tries)
	case o.Drop:
		c.Answer.Drop()
	default:
		c.Answer.Line(o.Value)
	}
}

// SlowedDown is for how long the handler has wanted nothing to be begun since the last time that it
// was asked; 0: it has not.
func (s *Solo) SlowedDown() time.Duration { return time.Duration(s.watch.slowed.Swap(0)) }

// Used returns what the handler has used of services that are paid for, since the last time that it was asked.
func (s *Solo) Used() job.Usage { return s.watch.limits.Allowance.TakeUsed() }

// Call hands the items, JSON values, or records of CSV, to the handler. It returns their outcomes, or why the call
// failed as a whole. There are fewer than items, but at least one, if the handler slows down or has
// answered with more than [AnswerLimit].
func (s *Solo) Call(items []json.RawMessage, records bool) ([]Outcome, error) {
	s.items = s.items[:0]
	for _, data := range items {
		s.items = append(s.items, Item{Data: data})
	}
	s.answer.Reset()
	c := &Call{Items: s.items, Records: records, Answer: &s.answer, lane: s.lane, ItemAttempts: 1, Place: &AnyPlace{}, firm: &atomic.Bool{}}
	if s.Spans != nil {
		c.span = s.Spans.Call(0, len(items))
	}
	s.answer.admit(c)
	err := s.handler.Call(c)
	full := err != nil && FaultOf(err).Full
	if err != nil && !full {
		return nil, err
	}
	if s.answer.Count != len(items) && !full && !(c.Ending() && s.answer.Count < len(items)) {
		return nil, LengthFault(len(items), s.answer.Count)
	}
	return s.answer.each(), nil
}

// Subcall is a call of another handler on behalf of a call: of some of its items, in their order.
// The other items have their outcomes from elsewhere.
type Subcall struct {
	Call
	of     *Call
	answer Answer
}

// Sub makes a subcall of these items. If the other handler's code does not run in this process,
// outside says so: the call is then not left behind while it runs.
func (c *Call) Sub(items []Item, outside bool) *Subcall {
	s := &Subcall{Call: *c, of: c}
	s.Items, s.Answer, s.Keep, s.block, s.gate, s.expiries = items, &s.answer, false, nil, nil, 0
	s.Records = false // they are the caller's values
	if outside {
		c.firm.Store(true)
	}
	return s
}

// Merge adds the outcomes of the call's items to its answer: faults and drops if the verdict has them, holes for
// items that are called again, and those of the subcall for the others, as far as it has any. err is what the
// subcall came to. It returns the result of the call.
func (s *Subcall) Merge(verdicts []Outcome, err error) error {
	c := s.of
	c.firm.Store(false)
	if s.gone || c.gone {
		return errAbandoned
	}
	c.expiries += s.expiries
	if c.Keep = s.Keep; err != nil && !s.Keep {
		return err
	}
	mayBeShort := c.Ending() || c.lane.slowed.Load() > 0
	if got := s.answer.Count; err == nil && (got > len(s.Items) || got < len(s.Items) && !mayBeShort) {
		return LengthFault(len(s.Items), s.answer.Count)
	}
	outcomes := s.answer.each()
	for i, v := range verdicts {
		if !v.Later && v.Fault == nil && !v.Drop {
			if len(outcomes) == 0 {
				return err // this item has no outcome, so those after it wait, too
			}
			v, outcomes = outcomes[0], outcomes[1:]
			if v.Later { // its wait has been noted
				c.Answer.hold(v.Fault)
				continue
			}
		}
		c.Add(i, v)
	}
	return err
}
