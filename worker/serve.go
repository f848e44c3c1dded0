package worker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/child"
	"github.com/stint-run/stint/internal/run/company"
	"github.com/stint-run/stint/internal/run/frames"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// Serve makes a handler of a long-lived program: one process for each slot, started once, which
// answers one call after the other over the serve protocol (docs/protocol.md; python/stint.py
// implements it for Python). A process that dies, hangs or breaks the protocol is replaced by its
// slot's next incarnation, and its call is retried; results that it had sent are kept. Its environment
// is scrubbed (see Options.Env); unless that has a PYTHONPATH, it names a directory with Python's module stint.
func Serve(argv ...string) Handler {
	return Handler{
		name: "serve " + strings.Join(argv, " "), argv: argv,
		check: programCheck(argv),
		open: func(s dependencies) (calls.Handler, service, error) {
			path, err := s.options.runnable(argv)
			if err != nil {
				return nil, nil, err
			}
			env, helper := s.options.childEnv(), pythonHelper{}
			if !s.options.setsPythonPath() {
				if helper, err = openPythonHelper(); err != nil {
					s.log.Warn("programs in Python need the helper beside them", "error", err)
				} else {
					env = append(env, "PYTHONPATH="+helper.dir)
				}
			}
			h := &host{dependencies: s, helper: helper, path: path, argv: argv, env: append(env, oneThread(s.options.Env)...)}
			return h.open()
		},
	}
}

// Calls of a program are cut so that each takes about a second, which bounds what a crash costs and
// how long a stop waits.
const (
	serveTarget = time.Second
	serveItems  = 1000
	serveBytes  = 1 << 20
	serveFirst  = 32
)

// host keeps a program running in each slot and makes its calls. It is safe for concurrent use.
type host struct {
	dependencies
	path string
	argv []string
	env  []string

	paced
	oomKills func() int64  // of this control group, so far
	single   bool          // items are handed over one by one
	inner    calls.Handler // the Go handler that the process runs; nil for any other program
	children *child.Starter
	helper   pythonHelper

	slots   sync.WaitGroup
	tasks   sync.WaitGroup // small requests on their way to the server
	closing chan struct{}
	once    sync.Once
}

func (h *host) open() (calls.Handler, service, error) {
	children, err := child.NewStarter(h.log)
	if err != nil {
		return nil, nil, err
	}
	h.set.programs = true
	h.children, h.closing, h.oomKills = children, make(chan struct{}), child.OomKills
	h.size = h.options.callSize(0, serveBytes)
	if h.inner != nil && h.options.Concurrency == 1 {
		h.size = h.inner.CallSize()
	}
	if h.options.CallItems == oneItem && h.inner == nil {
		h.size.Items, h.single = 1, true
	}
	h.pace = h.options.callPace(serveTarget, serveFirst, serveItems)
	return h, h, nil
}

var errClosing = errors.New("the worker ends")

// Close ends all programs: it asks them to end, and kills those that do not.
func (h *host) Close() {
	h.once.Do(func() {
		close(h.closing)
		h.slots.Wait()
		h.tasks.Wait()
		h.children.Close()
		h.helper.Close()
	})
}

func (h *host) Traits() calls.Traits {
	return calls.Traits{Form: calls.CheckedJSON, Lists: h.inner != nil && h.inner.Traits().Lists}
}

// Call has the slot's program make the call, and repeats it for items that have failed and may be
// retried. Results from before a program's death are kept (K2), and so are those for which there was room.
func (h *host) Call(c *calls.Call) error {
	c.Keep = true
	at := c.Place.(*callPlace)
	results, fault := h.round(c, at, &at.call, c.Items, calls.AnswerLimit)
	tries := make([]int, len(results))
	var again []int // the errors whose items have further tries
	for i := range tries {
		if tries[i] = c.Tried(i) + 1; mayRetry(c, &results[i], tries[i]) {
			again = append(again, i)
		}
	}
	if fault != nil && !isFull(fault) {
		again = nil // they are called again later
	}
	if full := h.repeat(c, at, results, tries, again, at.call.room); full != nil {
		return full
	}
	return fault
}

// isFull reports whether a call has ended because there was no room for its results.
func isFull(fault error) bool {
	f, ok := errors.AsType[*calls.Fault](fault)
	return ok && f.Full
}

// mayRetry reports whether an item that has been tried so often has failed, and may be tried again at once.
func mayRetry(c *calls.Call, r *wire.ResultFrame, tries int) bool {
	if r.Error == nil || r.RetryAfter != nil {
		return false
	}
	o := c.Failed(resultFault(r), tries, c.ItemAttempts)
	return o.Later && !o.Apart
}

// resultFault returns the fault of an item that has failed, or is to be called again.
func resultFault(r *wire.ResultFrame) *calls.Fault {
	fault := &calls.Fault{Kind: job.KindError}
	if r.Error != nil {
		fault.Err = *r.Error
	}
	if r.RetryAfter != nil {
		fault = fault.RetryAfter(frames.Seconds(*r.RetryAfter))
	}
	return fault
}

// repeat calls the items at these indexes until none is to be retried, and adds the outcomes of all to the
// call's answer. If it has to end before, the items that have further tries are called again later. If there is
// no room for a new result, repeat returns that as full, and this item and those after it have no outcome.
func (h *host) repeat(c *calls.Call, at *callPlace, results []wire.ResultFrame, tries, again []int, room int) (full error) {
	for round := 1; len(again) > 0 && c.Wait(round); round++ {
		items := make([]calls.Item, len(again))
		for k, i := range again {
			items[k] = c.Items[i]
		}
		var call pending
		some, fault := h.round(c, at, &call, items, room)
		room = call.room
		var next []int
		for k := range some {
			i := again[k]
			results[i], tries[i] = some[k], tries[i]+1
			if mayRetry(c, &some[k], tries[i]) {
				next = append(next, i)
			}
		}
		if isFull(fault) {
			results, full = results[:again[len(some)]], fault
		}
		if fault != nil || len(some) < len(again) {
			break // those without an outcome keep their failure
		}
		again = next
	}
	for i := range results {
		report(c, i, &results[i], tries[i])
	}
	return full
}

// report adds an outcome to the call's answer, or has the item called again: tries have been made.
func report(c *calls.Call, i int, r *wire.ResultFrame, tries int) {
	if r.Error == nil && r.RetryAfter == nil {
		c.Add(i, calls.Outcome{Value: r.Value, Drop: r.Drop})
		return
	}
	c.Add(i, c.Failed(resultFault(r), tries, c.ItemAttempts))
}

// round makes one call of the items, with room for so many bytes of results. The results are call's. The call's timer
// runs from before the first byte is written until the call has ended (T17).
func (h *host) round(c *calls.Call, at *callPlace, call *pending, items []calls.Item, room int) ([]wire.ResultFrame, error) {
	group := at.suspicion(items)
	p, err := at.slot.ready(c.Soon(), group)
	if p == nil {
		return nil, err
	}
	defer at.slot.release()
	began := time.Now()
	ctx := c.Begin()
	defer c.End()
	call.begin(len(items), room, c.Isolating || group.Narrows(), c, at.execution.occupant.Job)
	id := p.begin(ctx, call, at, func(i int) []byte { return items[i].Data }, func(id int64) { h.cut(c, p, id, context.Cause(ctx)) })
	if !p.readAnswer(call) {
		h.await(ctx, c, p, call, id)
	}
	at.learn(call, items)
	if call.fault == nil {
		h.pace.Learn(call.items, time.Since(began))
	}
	return call.results, call.fault
}

// suspicion returns the group of the items that are about to be called. They are under suspicion if the first one is.
func (p *callPlace) suspicion(items []calls.Item) *company.Group {
	if first := items[0].Ordinal; p.group != nil && (first < p.first || first > p.last) {
		p.group = nil
	}
	return p.group
}

// learn takes in the outcome of a call of the items: the others that were called with them before stay under suspicion.
func (p *callPlace) learn(c *pending, items []calls.Item) {
	last := items[len(items)-1].Ordinal
	switch {
	case c.group != nil:
		p.group, p.first = c.group, items[0].Ordinal
		p.last = max(last, p.last)
	case p.group != nil && c.fault == nil:
		p.first = last + 1
	}
}

// await waits until the call has ended. Meanwhile it passes on that the call should, or must, end.
func (h *host) await(ctx context.Context, c *calls.Call, p *program, call *pending, id int64) {
	done, noticed := p.done(call), c.Noticed()
	for {
		select {
		case <-done:
			return
		case <-noticed:
			p.stopping(c.StopNotice())
			noticed = nil
		case <-ctx.Done():
			h.cut(c, p, id, context.Cause(ctx))
			<-done
			return
		}
	}
}

// cut ends the program because a call must not continue: its timer has expired, or everything must end. If the program
// cannot be killed, that is tried again until it has ended (child.Process.Kill), and the call lasts until then or until
// it is answered.
func (h *host) cut(c *calls.Call, p *program, id int64, cause error) {
	fault := calls.FaultOf(cause)
	if _, ok := errors.AsType[*timers.ExpiredError](cause); ok {
		p.end(ending{fault: fault, guilty: id}, true)
		return
	}
	if last, ok := p.endSoftly(ending{fault: fault, guilty: id, free: true}, h.options.killAfter(calls.Drained(cause))); ok {
		c.Forced(p.pid(), last, cause)
	}
}
