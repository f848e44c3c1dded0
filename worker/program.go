package worker

import (
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/frames"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

const (
	// byeLimit is how long a program may take to end once it has been told to, termLimit how long
	// after TERM; then it is killed.
	byeLimit  = 5 * time.Second
	termLimit = 5 * time.Second
	// stackLimit bounds the wait for the stacks of a program that is about to be killed, stackQuiet
	// is how long it must have been silent to have told them.
	stackLimit = time.Second
	stackQuiet = 25 * time.Millisecond
	// closedLimit is how long a program whose standard output has ended may take to end itself.
	closedLimit = time.Second
)

// program is one incarnation of a slot's process. It speaks the serve protocol.
//
// Its goroutines are the reader of its frames, the reader of its standard error, and the one that
// waits for the process and then for those two; ended is closed after all of them.
type program struct {
	host        *host
	slot        *slot
	incarnation int
	child       *child
	pipes       *pipes
	client      *timers.Client
	outbox      outbox
	stderr      *stderrLog
	oomKills    int64 // of the cgroup, before

	sent    *counted     // its frames
	handled atomic.Int64 // bytes of those that have been dealt with
	reading

	mu          sync.Mutex
	calls       map[int64]*pending
	lastID      int64
	name        string
	stackSignal syscall.Signal
	isReady     bool
	saidBye     bool
	why         *ending // why it was made to end; nil where it ended by itself

	ready  chan struct{} // closed once the program can be called
	exited chan struct{} // closed once the process has ended
	errors chan struct{} // closed once its standard error has ended
	ended  chan struct{} // closed once nothing of it is left
	fate   error         // how it ended, once ended is closed
	free   bool          // its end came while a fault was being narrowed down
}

// pending is a call under way.
type pending struct {
	items     int
	isolating bool
	job       string
	slow      func(time.Duration) // passes on that the program wants less
	slowed    bool                // it does
	results   []frames.Result
	values    []byte // of the results
	ended     bool
	done      chan struct{} // closed when the call has ended; nil until somebody waits for that
	fault     error         // nil: it was answered
	suspect   bool          // it may be to blame for the program's end, or others in hand
}

// begin makes it another call, which uses the memory of the one before.
func (c *pending) begin(items int, isolating bool, of *activities.Call, job string) {
	clear(c.results) // of errors
	*c = pending{items: items, isolating: isolating, job: job, slow: of.SlowDown, results: c.results[:0], values: c.values[:0]}
}

// keep takes a result in, whose value is part of a frame that is about to be overwritten.
func (c *pending) keep(r frames.Result) {
	if r.Value != nil {
		begin := len(c.values)
		c.values = append(c.values, r.Value...)
		r.Value = c.values[begin:len(c.values):len(c.values)]
	}
	c.results = append(c.results, r)
}

// end tells who waits for it. The program's lock is held.
func (c *pending) end(fault error) {
	c.fault, c.ended = fault, true
	if c.done != nil {
		close(c.done)
	}
}

// launch starts the slot's next incarnation. The process may be on its way to its end when it returns.
func (h *host) launch(s *slot, incarnation int) (*program, error) {
	cmd := &exec.Cmd{
		Path: h.path, Args: h.argv, Dir: h.options.Dir, SysProcAttr: childAttributes(),
		Env: append(h.env[:len(h.env):len(h.env)], h.options.slotEnv(h.worker, s.number, incarnation)...),
	}
	pipes, err := newFramePipes(cmd)
	if err != nil {
		return nil, err
	}
	p := &program{
		host: h, slot: s, incarnation: incarnation, pipes: pipes, calls: map[int64]*pending{},
		stderr: newStderrLog(h.log.With("slot", s.number, "incarnation", incarnation)), oomKills: h.oomKills(),
		ready: make(chan struct{}), exited: make(chan struct{}), errors: make(chan struct{}), ended: make(chan struct{}),
	}
	p.outbox.w, p.outbox.atOnce = pipes.stdin, writeAtOnce(pipes.stdin)
	p.startReading()
	p.child, err = h.children.startOn(cmd, h.options.cpusOf(s.number))
	pipes.closeChildEnds()
	if err != nil {
		pipes.close()
		return nil, fmt.Errorf("starting %s: %w", h.argv[0], err)
	}
	p.client = h.watchdog.Client(fmt.Sprintf("slot %d of %s", s.number, h.worker), p)
	var reading sync.WaitGroup
	reading.Go(p.read)
	reading.Go(func() { defer close(p.errors); p.stderr.follow(pipes.stderr) })
	go p.await(&reading)
	p.send(frames.Hello{
		Type: frames.TypeHello, Version: frames.Version, Worker: h.worker, Slot: s.number, Incarnation: incarnation,
		MaxRestarts: h.options.Restarts, Seed: h.options.Seed + int64(s.number), Concurrency: h.options.Concurrency,
		Limits: frames.Limits{Frame: frames.MaxFrame, Scope: frames.MaxScope, Timers: frames.MaxTimers},
	})
	return p, nil
}

func (p *program) pid() int { return p.child.cmd.Process.Pid }

var errExited = errors.New("it exited with status 0 while it should serve")

// begin hands the items to the program.
func (p *program) begin(c *pending, at *place, item func(i int) []byte) (id int64) {
	p.mu.Lock()
	select {
	case <-p.exited:
		c.end(&activities.Fault{Kind: job.KindCrash, Collateral: true, Err: job.Error{Type: "Exit", Message: "the program ended before the call"}})
		p.mu.Unlock()
		return 0
	default:
	}
	p.lastID++
	id = p.lastID
	p.calls[id] = c
	p.mu.Unlock()
	at.frame = frames.AppendCall(at.frame[:0], id, c.items, item, p.host.single)
	if !p.outbox.write(at.frame) {
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
		p.broken(err) // cannot be: these frames are of plain types
		return
	}
	if !p.outbox.post(line) {
		p.broken(fmt.Errorf("it does not read its standard input: %d frames wait for it", maxOutbox))
	}
}

// stopping tells the program that the call under way should come to its end.
func (p *program) stopping(notice job.StopNotice) {
	p.send(frames.Stopping{Type: frames.TypeStopping, Reason: notice.Reason, Grace: max(0, time.Until(notice.Deadline)).Seconds()})
}

// Errors of programs, as they are told.
var (
	errNotReady = errors.New("results before it was ready")
	errTwice    = errors.New("it said ready twice")
)

// errUnknownCall is for results that nobody waits for.
func errUnknownCall(id int64) error {
	return fmt.Errorf("results for call %d, which is not under way", id)
}

// results takes results in.
func (p *program) results(f *frames.Results) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.calls[f.ID]
	switch {
	case !p.isReady:
		return errNotReady
	case c == nil:
		return errUnknownCall(f.ID)
	}
	for i := range f.Results {
		if err := checkResult(&f.Results[i]); err != nil {
			return fmt.Errorf("result %d of call %d: %w", len(c.results)+i+1, f.ID, err)
		}
	}
	for _, r := range f.Results {
		c.keep(r)
	}
	var fault error
	switch {
	case f.Error != nil:
		fault = p.host.failed(*f.Error)
	case f.More && len(c.results) <= c.items:
		return nil
	case c.slowed && len(c.results) < c.items: // the others come again
	case len(c.results) != c.items:
		fault = activities.LengthFault(c.items, len(c.results))
		c.results = c.results[:0]
	}
	c.suspect = false
	delete(p.calls, f.ID)
	p.answered = true
	c.end(fault)
	return nil
}

var errNoResult = errors.New(`it has none of "value", "drop" and "error"`)

func checkResult(r *frames.Result) error {
	if r.Value == nil && !r.Drop && r.Error == nil {
		return errNoResult
	}
	return nil
}
