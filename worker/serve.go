package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/backoff"
	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/child"
	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/job"
)

// Serve makes a handler of a long-lived program: one process for each slot, started once, which
// answers one call after the other over the serve protocol (docs/protocol.md; python/stint.py
// implements it for Python). A process that dies, hangs or breaks the protocol is replaced by its
// slot's next incarnation, and its call is retried; results that it had sent are kept. Its environment
// is scrubbed (see Options.Env).
func Serve(argv ...string) Handler {
	return Handler{
		name: "serve " + strings.Join(argv, " "), argv: argv,
		check: func(o Options) error {
			if _, err := findProgram(argv, o.Dir); err != nil {
				return err
			}
			return o.checkCPUs()
		},
		open: func(s dependencies) (calls.Handler, service, error) {
			path, err := findProgram(argv, s.options.Dir)
			if err != nil {
				return nil, nil, err
			}
			h := &host{dependencies: s, path: path, argv: argv, env: append(s.options.childEnv(), oneThread(s.options.Env)...)}
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

	size     calls.CallSize
	oomKills func() int64  // of this control group, so far
	single   bool          // items are handed over one by one
	inner    calls.Handler // the Go handler that the process runs; nil for any other program
	children *child.Starter
	pace     calls.Pace

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
	h.children, h.closing, h.oomKills = children, make(chan struct{}), child.OomKills
	h.size = h.options.callSize(0, serveBytes)
	if h.inner != nil && h.options.Concurrency == 1 {
		h.size = h.inner.CallSize()
	}
	if h.options.CallItems == OneItem && h.inner == nil {
		h.size.Items, h.single = 1, true
	}
	h.pace = h.options.callPace(serveTarget, serveFirst, serveItems)
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
			var err error
			if defect := trap.Run("starting a program", func() { began[i], err = h.launchReady(ctx, s, 0) }); defect != nil {
				err = defect
			}
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
			cancel() // the others need not continue
		}
	}
	if first != nil {
		h.endAll(began)
		return fmt.Errorf("starting %s: %w", strings.Join(h.argv, " "), first)
	}
	for i, s := range h.roster.slots {
		s.change(func() { s.program = began[i] })
		h.slots.Go(func() { h.run("keeping a program running", func() { h.keep(s, began[i]) }, nil) })
	}
	return nil
}

func (h *host) endAll(programs []*program) {
	var ending sync.WaitGroup
	for _, p := range programs {
		if p != nil {
			ending.Go(func() { h.run("ending a program", p.goodbye, p.child.Kill) })
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
	why := &calls.Fault{Kind: job.KindCrash, Err: job.Error{
		Type: "NotReady", Message: fmt.Sprintf("it did not say that it was ready within %v", h.options.Ready),
	}}
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	p.end(ending{fault: why}, late)
	<-p.ended
	if !late {
		return nil, errClosing
	}
	return nil, startError(why, lastLine(p.stderr.Text()))
}

var errClosing = errors.New("the worker ends")

// startError says why a program could not get ready: type, message, the end of its standard error,
// and its stack (W4).
func startError(fate error, words string) error {
	var fault *calls.Fault
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

// replace starts incarnations of the slot, after old, until one is ready. It returns nil if the slot
// is out or the worker ends.
func (h *host) replace(s *slot, old *program) *program {
	event := SlotEvent{Kind: SlotReplaced, Slot: s.number, PID: old.pid(), Incarnation: old.incarnation, Err: old.fate, Free: old.free}
	for {
		var ok bool
		event.Wait, ok = s.replaced(event.Err, event.Free)
		event.Incarnation++
		h.observe(event)
		if !ok || !h.sleep(event.Wait) {
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

// sleep waits. It returns false if the host closes meanwhile.
func (h *host) sleep(d time.Duration) bool {
	return backoff.Wait(d, h.closing)
}

// Close ends all programs: it asks them to end, and kills those that do not.
func (h *host) Close() {
	h.once.Do(func() {
		close(h.closing)
		h.slots.Wait()
		h.tasks.Wait()
		h.children.Close()
	})
}

// PacedItems returns the items that CallSize settles at.
func (h *host) PacedItems(start, item float64) int {
	if h.size.Items > 0 {
		return h.size.Items
	}
	return h.pace.Settled(start, item)
}
