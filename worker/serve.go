package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
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

// PacedItems tells what CallSize comes to.
func (h *host) PacedItems(start, item float64) int {
	if h.size.Items > 0 {
		return h.size.Items
	}
	return h.pace.settled(start, item)
}
