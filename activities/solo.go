package activities

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/job"
)

// Solo makes calls of a handler outside of a batch: in a process of its own, whose worker has cut
// the calls, tries them again and looks after their time. One goroutine may use it.
type Solo struct {
	handler Handler
	minder  *minder
	answer  Answer
	items   []Item
}

// NewSolo returns a Solo. ctx carries what the handler's own context should. The caller must Close it.
func NewSolo(ctx context.Context, h Handler, stop SoloStop) *Solo {
	return &Solo{handler: h, minder: mind(ctx, minderLimits{stopped: stop.Stopped, notice: stop.Notice, request: stop.Request, never: true})}
}

// SoloStop is how a Solo's handler sees a stop coming, and asks for one.
type SoloStop struct {
	Stopped <-chan struct{}
	Notice  func() (job.StopNotice, bool)
	Request func(context.Context, job.Stop) error
}

// Close ends it.
func (s *Solo) Close() { s.minder.stop() }

// Outcome is what has become of one item: a value, or no result, or a fault.
type Outcome struct {
	Value []byte // JSON; valid until the next call
	Drop  bool
	Fault *Fault
	Tries int // failed ones, where there is a fault
}

// SlowedDown is for how long the handler has wanted nothing to be begun since the last time that it
// was asked; 0: it has not.
func (s *Solo) SlowedDown() time.Duration { return time.Duration(s.minder.slowed.Swap(0)) }

// Call hands the items, JSON values, to the handler. It returns their outcomes, or why the call
// failed as a whole. Of a handler that slows down there may be fewer than items.
func (s *Solo) Call(items []json.RawMessage) ([]Outcome, error) {
	s.items = s.items[:0]
	for _, data := range items {
		s.items = append(s.items, Item{Data: data})
	}
	s.answer.reset()
	c := &Call{Items: s.items, Answer: &s.answer, minder: s.minder, ItemAttempts: 1, Slot: anySlot{}, firm: &atomic.Bool{}}
	s.answer.admit(c)
	if err := s.handler.Call(c); err != nil {
		return nil, err
	}
	if s.answer.count != len(items) && !(c.Ending() && s.answer.count < len(items)) {
		return nil, LengthFault(len(items), s.answer.count)
	}
	outcomes := make([]Outcome, 0, len(items))
	s.answer.each(func(o outcome) {
		switch {
		case o.fault != nil:
			outcomes = append(outcomes, Outcome{Fault: o.fault})
		case o.drop:
			outcomes = append(outcomes, Outcome{Drop: true})
		default:
			outcomes = append(outcomes, Outcome{Value: s.answer.buf[o.start : o.end-1]})
		}
	})
	return outcomes, nil
}
