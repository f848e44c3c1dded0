package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/frames"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// Serve makes a handler of a program that stays: one process for each slot, started once, which
// answers one call after the other over the serve protocol (docs/protocol.md; python/stint.py
// speaks it for Python). A process that dies, hangs or breaks the protocol is replaced by its
// slot's next incarnation, and its call tried again; what it had answered is kept. Its environment
// is scrubbed (see Options.Env).
func Serve(argv ...string) Handler {
	return Handler{
		name: "serve " + strings.Join(argv, " "),
		check: func(o Options) error {
			if _, err := findProgram(argv, o.Dir); err != nil {
				return err
			}
			return o.checkCPUs()
		},
		open: func(s surroundings) (activities.Handler, service, error) {
			path, err := findProgram(argv, s.options.Dir)
			if err != nil {
				return nil, nil, err
			}
			h := &host{surroundings: s, path: path, argv: argv, env: append(s.options.childEnv(), oneThread(s.options.Env)...)}
			return h.open()
		},
	}
}

// Calls of a program are cut so that each takes about a second: what a crash costs, and what a stop
// waits for.
const (
	serveTarget = time.Second
	serveItems  = 1000
	serveBytes  = 1 << 20
	serveFirst  = 32
)

// host keeps a program running in each slot and makes its calls. It is safe for concurrent use.
type host struct {
	surroundings
	path string
	argv []string
	env  []string

	size     activities.CallSize
	oomKills func() int64       // of this control group, so far
	single   bool               // items are handed over one by one
	inner    activities.Handler // which runs isolated; nil where the program is somebody else's
	children *children
	pace     pace

	slots   sync.WaitGroup
	tasks   sync.WaitGroup // small things on their way to the server
	closing chan struct{}
	once    sync.Once
}

func (h *host) open() (activities.Handler, service, error) {
	children, err := newChildren()
	if err != nil {
		return nil, nil, err
	}
	h.children, h.closing, h.oomKills = children, make(chan struct{}), oomKills
	h.size = h.options.callSize(0, serveBytes)
	if h.inner != nil {
		h.size = h.inner.CallSize()
	}
	if h.options.CallItems == OneItem && h.inner == nil {
		h.size.Items, h.single = 1, true
	}
	h.pace = pace{target: serveTarget, first: serveFirst, most: serveItems}
	return h, h, nil
}

// start starts the programs of all slots and waits until each is ready: all, or none and an error
// that names the slot (W3, W4).
func (h *host) start(ctx context.Context) error {
	began := make([]*program, len(h.roster.slots))
	failed := make(chan error, len(began))
	ctx, cancel := context.WithTimeout(ctx, h.options.Ready)
	defer cancel()
	for i, s := range h.roster.slots {
		h.slots.Go(func() {
			p, err := h.launchReady(ctx, s, 0)
			began[i] = p
			if err != nil {
				err = fmt.Errorf("slot %d: %w", s.number, err)
			}
			failed <- err
		})
	}
	var first error
	for range began {
		if err := <-failed; err != nil && first == nil {
			first = err
			cancel() // the others need not go on
		}
	}
	if first != nil {
		h.endAll(began)
		return fmt.Errorf("starting %s: %w", strings.Join(h.argv, " "), first)
	}
	for i, s := range h.roster.slots {
		s.change(func() { s.program = began[i] })
		h.slots.Go(func() { h.keep(s, began[i]) })
	}
	return nil
}

func (h *host) endAll(programs []*program) {
	var ending sync.WaitGroup
	for _, p := range programs {
		if p != nil {
			ending.Go(p.goodbye)
		}
	}
	ending.Wait()
}

// launchReady starts an incarnation and waits until it is ready.
func (h *host) launchReady(ctx context.Context, s *slot, incarnation int) (*program, error) {
	p, err := h.launch(s, incarnation)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.ready:
		h.observe(SlotEvent{Kind: SlotReady, Slot: s.number, PID: p.pid(), Incarnation: incarnation})
		return p, nil
	case <-p.ended:
		return nil, startError(p.fate, "")
	case <-h.closing:
	case <-ctx.Done():
	}
	why := &activities.Fault{Kind: job.KindCrash, Err: job.Error{
		Type: "NotReady", Message: fmt.Sprintf("it did not say that it was ready within %v", h.options.Ready),
	}}
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	p.end(ending{fault: why}, late)
	<-p.ended
	if !late {
		return nil, errClosing
	}
	return nil, startError(why, lastLine(p.stderr.text()))
}

var errClosing = errors.New("the worker ends")

// startError tells why a program could not get ready: type, message, its last words, and its stack
// (W4).
func startError(fate error, words string) error {
	var fault *activities.Fault
	if !errors.As(fate, &fault) {
		return fate
	}
	text := fault.Err.Type + ": " + fault.Err.Message
	if words != "" {
		text += ": " + words
	}
	if stack := strings.TrimSpace(fault.Err.Stack); stack != "" && stack != words {
		text += "\n" + stack
	}
	return errors.New(text)
}

// keep replaces the slot's program whenever it ends.
func (h *host) keep(s *slot, p *program) {
	for {
		select {
		case <-p.ended:
		case <-h.closing:
			s.change(func() { s.program = nil })
			p.goodbye()
			return
		}
		if p = h.replace(s, p); p == nil {
			return
		}
		s.change(func() { s.program = p })
	}
}

// replace starts incarnations of the slot, after old, until one is ready. It returns nil where the
// slot is out or the worker ends.
func (h *host) replace(s *slot, old *program) *program {
	event := SlotEvent{Kind: SlotReplaced, Slot: s.number, PID: old.pid(), Incarnation: old.incarnation, Err: old.fate, Free: old.free}
	for {
		wait, ok := s.replaced(event.Err, event.Free)
		event.Incarnation++
		h.observe(event)
		if !ok || !h.sleep(wait) {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), h.options.Ready)
		p, err := h.launchReady(ctx, s, event.Incarnation)
		cancel()
		switch {
		case err == nil:
			return p
		case errors.Is(err, errClosing):
			return nil
		}
		event.PID, event.Err, event.Free = 0, err, false
	}
}

// sleep waits; false where the host closes.
func (h *host) sleep(d time.Duration) bool {
	if d <= 0 {
		select {
		case <-h.closing:
			return false
		default:
			return true
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.closing:
		return false
	}
}

// close ends all programs: they are told, and killed where they take no notice.
func (h *host) close() {
	h.once.Do(func() {
		close(h.closing)
		h.slots.Wait()
		h.tasks.Wait()
		h.children.close()
	})
}

func (*host) Traits() activities.Traits { return activities.Traits{Form: activities.CheckedJSON} }

func (h *host) CallSize() activities.CallSize {
	if h.size.Items > 0 {
		return h.size
	}
	return activities.CallSize{Items: h.pace.items(), Bytes: h.size.Bytes}
}

// PacedItems tells what CallSize comes to.
func (h *host) PacedItems(start, item float64) int {
	if h.size.Items > 0 {
		return h.size.Items
	}
	return h.pace.settled(start, item)
}

// Call has the slot's program make the call, and again for items that have failed and may be tried
// again. What was answered before a program died is kept (K2).
func (h *host) Call(c *activities.Call) error {
	c.Keep = true
	at := c.Slot.(*place)
	results, fault := h.round(c, at, &at.call, c.Items)
	again := retries(results, 1, c.ItemAttempts)
	if fault != nil || len(again) == 0 {
		for i := range results {
			tell(c, &results[i], 1)
		}
		return fault
	}
	h.repeat(c, at, results, again)
	return nil
}

// retries returns the indexes of the results that are errors, if their items may be tried again.
func retries(results []frames.Result, try, attempts int) []int {
	var again []int
	if try < attempts {
		for i := range results {
			if results[i].Error != nil {
				again = append(again, i)
			}
		}
	}
	return again
}

// repeat makes calls of the items at these indexes until none is to be tried again, and adds the
// outcomes of all to the call's answer. What has failed before has failed, whatever a repetition
// comes to.
func (h *host) repeat(c *activities.Call, at *place, results []frames.Result, again []int) {
	tries := make([]int, len(results))
	for i := range tries {
		tries[i] = 1
	}
	for try := 2; len(again) > 0 && c.Wait(try-1); try++ {
		items := make([]activities.Item, len(again))
		for k, i := range again {
			items[k] = c.Items[i]
		}
		some, fault := h.round(c, at, &pending{}, items)
		for k := range some {
			results[again[k]], tries[again[k]] = some[k], try
		}
		if fault != nil || len(some) < len(again) {
			break
		}
		var next []int
		for _, k := range retries(some, try, c.ItemAttempts) {
			next = append(next, again[k])
		}
		again = next
	}
	for i := range results {
		tell(c, &results[i], tries[i])
	}
}

// tell adds an outcome to the call's answer.
func tell(c *activities.Call, r *frames.Result, tries int) {
	switch {
	case r.Error != nil:
		c.Answer.Fail(&activities.Fault{Kind: job.KindError, Err: *r.Error}, tries)
	case r.Drop:
		c.Answer.Drop()
	default:
		c.Answer.Line(r.Value)
	}
}

// round makes one call of the items. The results are call's.
func (h *host) round(c *activities.Call, at *place, call *pending, items []activities.Item) ([]frames.Result, error) {
	suspect := at.suspect
	p, err := at.slot.ready(c.Soon(), suspect)
	if p == nil {
		return nil, err
	}
	defer at.slot.release(suspect)
	began := time.Now()
	ctx := c.Begin()
	defer c.End()
	call.begin(len(items), c.Isolating || suspect, c, at.occupant.Job)
	call.suspect = suspect
	id := p.begin(call, at, func(i int) []byte { return items[i].Data })
	if !p.readAnswer(call) {
		h.await(ctx, c, p, call, id)
	}
	at.suspect = call.suspect
	if call.fault == nil {
		h.pace.learn(call.items, time.Since(began))
	}
	return call.results, call.fault
}

// await waits until the call has ended. It passes on that it should, or must.
func (h *host) await(ctx context.Context, c *activities.Call, p *program, call *pending, id int64) {
	done, stopping := p.done(call), c.Stopping()
	for {
		select {
		case <-done:
			return
		case <-stopping:
			p.stopping(c.StopNotice())
			stopping = nil
		case <-ctx.Done():
			h.cut(c, p, id, context.Cause(ctx))
			<-done
			return
		}
	}
}

// cut ends the program because a call must not go on: its timer has expired, or all must end.
func (h *host) cut(c *activities.Call, p *program, id int64, cause error) {
	fault := activities.FaultOf(cause)
	var expired *timers.ExpiredError
	if errors.As(cause, &expired) {
		p.end(ending{fault: fault, guilty: id}, true)
		return
	}
	p.endSoftly(ending{fault: fault, guilty: id})
}

// surroundings are what a handler has from its worker.
type surroundings struct {
	options     Options
	worker      string
	log         *slog.Logger
	roster      *roster
	info        func(slot, incarnation int) SlotInfo
	watchdog    *timers.Watchdog
	requestStop func(ctx context.Context, job string, stop job.Stop) error
	observe     func(SlotEvent)
	measure     func(Measurement)
}

// service is the part of a handler that lives as long as its worker. It may be nil.
type service interface {
	// start is called once before the first call. With an error nothing is left of it.
	start(ctx context.Context) error
	// close ends what it holds. It is idempotent, and may be called without a start.
	close()
}
