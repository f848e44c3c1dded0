package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/child"
	"github.com/stint-run/stint/internal/run/company"
	"github.com/stint-run/stint/internal/run/frames"
	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

const (
	// byeLimit is how long a program may take to end after bye, or when its standard output has ended; then it is
	// killed. On a busy machine the end of a process may be seen long after that of its pipes.
	byeLimit = 5 * time.Second
	// stackLimit bounds the wait for the stacks of a program that is about to be killed. They are
	// complete once it has been silent for stackQuiet.
	stackLimit = time.Second
	stackQuiet = 25 * time.Millisecond
)

// program is one incarnation of a slot's process. It speaks the serve protocol.
//
// Its goroutines are the reader of its frames, the reader of its standard error, and the one that
// waits for the process and then for those two; ended is closed after all of them.
type program struct {
	host        *host
	slot        *slot
	incarnation int
	child       *child.Process
	pipes       *child.Pipes
	client      *watchdog.Client
	outbox      child.Outbox
	stderr      *child.StderrLog
	oomKills    int64 // of the cgroup, before

	sent    *child.CountedPipe // its frames
	handled atomic.Int64       // bytes of those that have been handled
	reading

	mu          sync.Mutex
	calls       map[int64]*pending
	scopes      map[string]int64 // that are held: which call is in them, 0 if that is not known
	lastID      int64
	stackSignal syscall.Signal
	isReady     bool
	proven      bool // it has answered an item
	saidBye     bool
	condemned   bool    // a timer has expired
	expired     string  // the scope of the timer that has been reported last as expired
	why         *ending // why it was made to end; nil if it ended by itself

	ready  chan struct{} // closed once the program can be called
	exited chan struct{} // closed once the process has ended
	errors chan struct{} // closed once its standard error has ended
	ended  chan struct{} // closed once nothing of it is left
	fate   error         // how it ended, once ended is closed
	free   bool          // its end is not its slot's fault
}

// pending is a call under way.
type pending struct {
	items     int
	records   bool   // of CSV
	parent    string // see calls.Call.Traceparent
	isolating bool
	job       string
	spend     func(job.Usage)          // counts what it has used
	slow      func(time.Duration) bool // passes on a slow-down request, and reports whether the job slows down
	doubt     func()                   // ends the heartbeats of the call's batch
	slowed    bool                     // the program has made one
	results   []wire.ResultFrame
	values    []byte // of the results
	answered  int    // results that have come
	room      int    // bytes of results that may still be kept; the first one is, in any case
	full      bool   // no more results are kept
	ended     bool
	done      chan struct{}  // closed when the call has ended; nil until somebody waits for that
	fault     error          // nil: it was answered
	asked     bool           // a stop of its job has been requested meanwhile
	group     *company.Group // for its next try, because it may have caused the program's end; nil: it has not
}

// begin reuses its memory for another call.
func (c *pending) begin(items, room int, isolating bool, of *calls.Call, job string) {
	clear(c.results) // of errors
	*c = pending{items: items, room: room, isolating: isolating, job: job, records: of.Records, parent: of.Traceparent(), slow: of.SlowDown, spend: of.Spend, doubt: of.Doubt(), results: c.results[:0], values: c.values[:0]}
}

// keep adds a copy of a result: its value is part of a frame that is about to be overwritten. Its error
// is bounded here already: a call may have very many. From the first one on for which there is no room,
// results are only counted.
func (c *pending) keep(r wire.ResultFrame) {
	c.answered++
	if c.full {
		return
	}
	if r.Error != nil {
		r.Error = new(calls.Bounded(*r.Error))
	}
	var fault *calls.Fault
	if !r.Clean {
		fault = calls.CheckResult(r.Value)
	}
	switch {
	case r.Error != nil || r.Drop: // its value does not count
	case len(r.Value) > calls.MaxResult:
		r = wire.ResultFrame{Error: &calls.TooLargeFault(len(r.Value)).Err}
	case r.NotJSON:
		r = wire.ResultFrame{Error: &calls.NotJSON().Err}
	case fault != nil:
		r = wire.ResultFrame{Error: &fault.Err}
	}
	size := len(r.Value)
	if r.Error != nil {
		size += calls.TextBytes(r.Error)
	}
	if c.room -= size; c.room < 0 && len(c.results) > 0 {
		c.full = true
		return
	}
	if r.Value != nil {
		begin := len(c.values)
		c.values = append(c.values, r.Value...)
		r.Value = c.values[begin:len(c.values):len(c.values)]
		for i := bytes.IndexByte(r.Value, '\r'); i >= 0; i = bytes.IndexByte(r.Value, '\r') {
			r.Value[i] = ' ' // between tokens, where it is white space: in a line of an output it would be a line end to some
		}
	}
	c.results = append(c.results, r)
}

// end ends the call and wakes its caller. The program's lock is held.
func (c *pending) end(fault error) {
	c.fault, c.ended = fault, true
	if c.done != nil {
		close(c.done)
	}
}

// launch starts the slot's next incarnation. The process may be ending already when it returns.
func (h *host) launch(s *slot, incarnation int) (*program, error) {
	cmd := &exec.Cmd{
		Path: h.path, Args: h.argv, Dir: h.options.Dir, SysProcAttr: child.GroupAttributes(),
		Env: append(slices.Clip(h.env), h.options.slotEnv(h.worker, s.number, incarnation)...),
	}
	pipes, err := child.NewFramePipes(cmd)
	if err != nil {
		return nil, &calls.UnbegunError{Err: err}
	}
	p := &program{
		host: h, slot: s, incarnation: incarnation, pipes: pipes, calls: map[int64]*pending{}, scopes: map[string]int64{},
		stderr: child.NewStderrLog(h.log.With("slot", s.number, "incarnation", incarnation)), oomKills: h.oomKills(),
		ready: make(chan struct{}), exited: make(chan struct{}), errors: make(chan struct{}), ended: make(chan struct{}),
	}
	p.outbox.W, p.outbox.AtOnce, p.outbox.Defect = pipes.Stdin, child.WriteAtOnce(pipes.Stdin), h.defect
	p.startReading()
	p.child, err = h.children.Start(cmd, h.options.cpusOf(s.number))
	pipes.CloseChildEnds()
	if err != nil {
		pipes.Close()
		return nil, &calls.UnbegunError{Err: fmt.Errorf("starting %s: %w", h.argv[0], err)}
	}
	s.begun()
	p.client = h.watchdog.Client(fmt.Sprintf("slot %d of %s", s.number, h.worker), p)
	var reading sync.WaitGroup
	reading.Go(func() { h.run("reading a program's frames", p.read, p.child.Kill) })
	reading.Go(func() {
		defer close(p.errors)
		h.run("reading a program's standard error", func() { p.stderr.Follow(pipes.Stderr) }, p.child.Kill)
	})
	go func() {
		defer close(p.ended)
		h.run("waiting for a program", func() { p.await(&reading) }, p.child.Kill)
	}()
	p.send(wire.HelloFrame{
		Type: frames.TypeHello, Version: frames.Version, Worker: h.worker, Slot: s.number, Incarnation: incarnation,
		MaxRestarts: h.options.Restarts, Seed: h.options.Seed + int64(s.number), Concurrency: h.set.most(),
		Limits: wire.FrameLimits{Frame: frames.MaxFrame, Scope: frames.MaxScope, Timers: frames.MaxTimers},
	})
	return p, nil
}

func (p *program) pid() int { return p.child.Cmd.Process.Pid }

var errExited = errors.New("it exited with status 0 while it should serve")

// begin hands the items to the program. The program may not read them: cut is called with the call's
// number when ctx ends before they are written, and must then end the program.
func (p *program) begin(ctx context.Context, c *pending, at *callPlace, item func(i int) []byte, cut func(id int64)) (id int64) {
	p.mu.Lock()
	if p.over() {
		c.end(&calls.Fault{Kind: job.KindCrash, Collateral: true, Counted: true, Err: job.Error{Type: "Exit", Message: "the program ended before the call"}})
		p.mu.Unlock()
		return 0
	}
	p.lastID++
	id = p.lastID
	p.calls[id] = c
	if p.condemned {
		c.doubt()
	}
	p.mu.Unlock()
	at.frame = frames.AppendCall(at.frame[:0], id, c.items, item, p.host.single, c.records, c.parent)
	written := p.outbox.Write(at.frame, func(write func()) {
		defer trap.OnDone(ctx, "ending a call", p.host.dependencies.defect, func() { cut(id) })()
		write()
	})
	if !written {
		at.frame = nil
	}
	return id
}

// done returns a channel that is closed when the call has ended.
func (p *program) done(c *pending) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.ended {
			close(c.done)
		}
	}
	return c.done
}

func (p *program) hasEnded(c *pending) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.ended
}

// send sends a small frame, in the background.
func (p *program) send(frame any) {
	line, err := frames.Encode(frame)
	if err != nil {
		p.broken(err) // impossible: these frames are of plain types
		return
	}
	if !p.outbox.Post(line) {
		p.broken(fmt.Errorf("it does not read its standard input: %d frames wait for it", child.MaxOutbox))
	}
}

// stopping signals the program that the call under way should end.
func (p *program) stopping(notice wire.StopNotice) {
	p.send(wire.StoppingFrame{Type: frames.TypeStopping, Reason: notice.Reason, Grace: max(0, time.Until(notice.Deadline)).Seconds()})
}

// results adds results to their call.
func (p *program) results(f *wire.ResultsFrame) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.calls[f.ID]
	switch {
	case !p.isReady:
		return errors.New("results before it was ready")
	case c == nil:
		return fmt.Errorf("results for call %d, which is not under way", f.ID)
	}
	for i := range f.Results {
		if r := &f.Results[i]; r.Value == nil && !r.Drop && r.Error == nil && r.RetryAfter == nil {
			return fmt.Errorf(`result %d of call %d: it has none of "value", "drop", "error" and "retry_after"`, c.answered+i+1, f.ID)
		}
	}
	for _, r := range f.Results {
		c.keep(r)
	}
	if len(f.Results) > 0 && !p.proven {
		p.proven = true
		p.slot.proven()
	}
	var fault error
	for f.RetryAfter != nil && c.answered < c.items {
		c.keep(wire.ResultFrame{RetryAfter: f.RetryAfter, Error: f.Error})
	}
	switch {
	case f.RetryAfter != nil && c.full:
		fault = calls.FullFault()
	case f.RetryAfter != nil && c.answered == c.items:
	case f.Error != nil:
		fault = p.host.failed(*f.Error)
	case f.More && c.answered <= c.items:
		return nil
	case c.slowed && c.answered < c.items: // the others are repeated
	case c.answered != c.items:
		fault = calls.LengthFault(c.items, c.answered)
		c.results = c.results[:0]
	case c.full:
		fault = calls.FullFault()
	}
	delete(p.calls, f.ID)
	p.answered = true
	c.end(fault)
	return nil
}
