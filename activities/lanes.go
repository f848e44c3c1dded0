package activities

import (
	"errors"
	"sync"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/run/calls"
)

// run has all items called, until the batch's end or until it should end. Calls are made at once in as many lanes as
// the slot has places for, while there is something for them to do.
func (e *execution) run() error {
	defer e.line.free()
	place := e.slot.Place(e.line.closed) // whoever gives the last one up gets none any more
	if place == nil {
		return e.line.end()
	}
	if done, err := e.copyUnchanged(); done || err != nil {
		place.Leave()
		return err
	}
	if from, handler := e.streamed(); from != nil {
		if done, err := e.stream(from, handler, place); done || err != nil {
			place.Leave()
			return err
		}
	}
	defer e.acts.goroutines.Use()()
	var open sync.WaitGroup
	for e.line.wanting() {
		if place == nil {
			place = e.slot.Place(e.line.closed)
		}
		if place == nil {
			break
		}
		e.line.enter()
		open.Add(1)
		e.newLane(place, open.Done).start(nil)
		place = nil
	}
	if place != nil {
		place.Leave()
	}
	open.Wait()
	return e.line.end()
}

// lane makes calls one after the other, until there is nothing to call, or others have to. It has one goroutine, and
// another one if a handler keeps that.
type lane struct {
	e          *execution
	place      calls.Place
	calls      *calls.Lane
	caller     *calls.Caller
	assignment *assignment // in hand
	closed     func()
}

func (e *execution) newLane(place calls.Place, closed func()) *lane {
	l := &lane{e: e, place: place, calls: e.watch.Lane(), closed: closed}
	l.caller = &calls.Caller{
		Handler: e.acts.opts.Handler, Limits: e.in.Calls, Lane: l.calls, Place: place,
		Observer: e.acts.opts.Observer, Job: e.in.Ref.Job, JobRun: e.in.Ref.Run, RootRun: e.in.Ref.RootRun(), Stage: e.in.StageName(),
		Fit: &e.acts.fit, Flat: e.in.Flattens(),
		Hope: e.hope, Spans: e.traced.Spans(), Trials: e.trials, Rules: e.rules, Brake: &e.acts.brake,
		Record: func() error { e.complete(l.assignment); return e.line.recordEarly(l.assignment) }, CarryOn: l.start,
	}
	return l
}

// start makes the lane's calls in a goroutine. The rest of a call that another one has begun comes first, if there is
// one.
func (l *lane) start(rest func() error) {
	l.e.acts.goroutines.Go("making a batch's calls", func(g *calls.Goroutine) {
		l.calls.In(g)
		if kept := l.work(rest); !kept {
			l.close()
		}
	}, func(defect error) {
		l.e.line.fail(defect)
		l.close()
	})
}

func (l *lane) close() {
	l.calls.Close()
	l.place.Leave()
	l.closed()
}

// work makes calls until there are no more. It returns true if a handler has kept the goroutine: the lane has another
// one then.
func (l *lane) work(rest func() error) (kept bool) {
	line := l.e.line
	for {
		var err error
		if rest != nil {
			err, rest = rest(), nil
		} else if l.assignment = line.take(); l.assignment == nil {
			return false
		} else if err = l.e.pass(l.assignment); err == nil {
			err = l.settle()
		}
		if errors.Is(err, calls.ErrKept) {
			return true
		}
		l.e.complete(l.assignment)
		line.finish(l.assignment, l.caller, err)
	}
}

// pass waits until the items may be begun. It returns ErrEnding if the batch should end instead.
func (e *execution) pass(p *assignment) error {
	if !p.gated {
		return nil
	}
	defer e.line.open()
	waited, ok := e.acts.opts.Limiter.Take(e.watch, len(p.toCall))
	e.stride.waited += waited
	if !ok || !e.stride.begin(e.watch, len(p.toCall)) {
		return calls.ErrEnding
	}
	return nil
}

// settle gives each of the assignment's items its outcome, up to the first without one if the batch ends early.
func (l *lane) settle() error {
	p, c := l.assignment, l.caller
	shape := p.block.convert.Shape
	c.Answer, c.Block, c.Records, c.Text = &p.answer, p.block.lines, records.HasRecords(shape), records.TextLines(shape)
	return c.Run(p.toCall)
}
