package activities

import (
	"sync"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/trap"
)

// run has all items called, until the batch's end or until it should end. Calls are made at once in as many lanes as
// the slot has places for, while there is something for them to do.
func (e *execution) run() error {
	defer e.line.free()
	var lanes sync.WaitGroup
	for e.line.wanting() {
		place := e.slot.Place(e.line.closed)
		if place == nil {
			break
		}
		e.line.enter()
		lanes.Go(func() {
			defer place.Leave()
			if err := trap.Run("making a batch's calls", func() { e.lane(place) }); err != nil {
				e.line.fail(err)
			}
		})
	}
	lanes.Wait()
	return e.line.end()
}

// lane makes calls one after the other, until there is nothing to call, or others have to.
func (e *execution) lane(place calls.Place) {
	lane := e.watch.Lane()
	defer lane.Close()
	var p *portion
	c := &calls.Caller{
		Handler: e.acts.opts.Handler, Limits: e.in.Calls, Lane: lane, Place: place,
		Observer: e.acts.opts.Observer, Job: e.in.Ref.Job, Fit: &e.acts.fit,
		Record: func() error { return e.line.recordEarly(p) },
	}
	for {
		if p = e.line.take(); p == nil {
			return
		}
		err := e.pass(p)
		if err == nil {
			c.Answer, c.Block = &p.answer, p.block.lines
			err = e.settle(c, p)
		}
		e.line.finish(p, c, err)
	}
}

// pass waits until the items may be begun. It returns ErrEnding if the batch should end instead.
func (e *execution) pass(p *portion) error {
	if !p.gated {
		return nil
	}
	defer e.line.open()
	waited, ok := e.acts.opts.Limiter.Take(e.watch, len(p.items))
	e.stride.waited += waited
	if !ok || !e.stride.begin(e.watch, p.size) {
		return calls.ErrEnding
	}
	return nil
}

// settle gives each of the portion's items its outcome, up to the first without one if the batch ends early.
func (e *execution) settle(c *calls.Caller, p *portion) error {
	v := e.in.Verdict
	if v == nil {
		return c.Run(p.items)
	}
	for range p.items {
		p.answer.Fail(&calls.Fault{Kind: v.Kind, Err: v.Error}, v.Attempts)
	}
	return nil
}
