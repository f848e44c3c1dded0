package worker

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/frames"
	"github.com/stint-run/stint/job"
)

// Exec makes a handler of a filter: a program that reads n lines on its standard input, to the
// end, and writes n lines on its standard output. One process serves one call; its output counts
// only once it has exited with status 0. Status 75 is a slow-down request (see [SlowDown]), for the
// time in its last line on standard error, "retry-after: SECONDS", or else for 1 s. The lines are the
// items' bytes (CSV records are JSON objects in the order of the header), and the answer is never
// parsed.
//
// The process has its own process group, which is killed when the call is over, when its timer
// expires and when the worker ends, however that happens. At the end of the grace period of a stop, or
// of the worker's drain, it gets TERM before. Its environment is scrubbed (see Options.Env).
func Exec(argv ...string) Handler {
	return Handler{
		name: "exec " + strings.Join(argv, " "), argv: argv,
		check: programCheck(argv),
		open: func(s dependencies) (calls.Handler, service, error) {
			h, err := newExec(argv, s)
			if err != nil {
				return nil, nil, err
			}
			return h, h, nil
		},
	}
}

// programCheck returns what would keep a handler of the command from running.
func programCheck(argv []string) func(Options) error {
	return func(o Options) error {
		if _, err := o.runnable(argv); err != nil {
			return err
		}
		return o.checkCPUs()
	}
}

const (
	// callTarget is the duration that calls of a filter aim at, so that a stop or a crash costs no more.
	callTarget = 5 * time.Second
	// A call holds its lines and its answer in memory.
	execItems = 100_000
	execBytes = 4 << 20
	// firstCall is the size of a call before the filter's speed is known.
	firstCall = 1000
	// autoTarget and autoFirst are the same if the worker finds out how many calls a slot should make at once: it learns
	// only from calls that have ended.
	autoTarget = time.Second
	autoFirst  = 16
)

type execHandler struct {
	processes
	path string
	argv []string
	paced

	buffers sync.Pool // *[]byte, for lines that have to be put together
}

// paced cuts the calls of a program: to a size, or, if that says nothing of items, so that each takes as long as the pace aims at.
type paced struct {
	size calls.CallSize
	pace calls.Pace
}

func (p *paced) CallSize() calls.CallSize {
	if p.size.Items > 0 {
		return p.size
	}
	return calls.CallSize{Items: p.pace.Items(), Bytes: p.size.Bytes}
}

// PacedItems returns the items that CallSize settles at.
func (p *paced) PacedItems(start, item float64) int {
	if p.size.Items > 0 {
		return p.size.Items
	}
	return p.pace.Settled(start, item)
}

func newExec(argv []string, s dependencies) (*execHandler, error) {
	o := s.options
	path, err := o.runnable(argv)
	if err != nil {
		return nil, err
	}
	processes, err := newProcesses(s)
	if err != nil {
		return nil, err
	}
	return &execHandler{
		processes: processes, path: path, argv: argv,
		paced:   paced{o.callSize(0, execBytes), execPace(o)},
		buffers: sync.Pool{New: func() any { return new([]byte) }},
	}, nil
}

func execPace(o Options) calls.Pace {
	if o.Concurrency == autoConcurrency {
		return calls.Pace{Target: autoTarget, First: autoFirst, Most: execItems}
	}
	return calls.Pace{Target: callTarget, First: firstCall, Most: execItems}
}

// findProgram returns the absolute path of a command's program, which is a path relative to dir if it has a
// slash but does not begin with one.
func findProgram(argv []string, dir string) (string, error) {
	if len(argv) == 0 || argv[0] == "" {
		return "", errors.New("the command is empty")
	}
	name := argv[0]
	find := name
	if dir != "" && strings.Contains(name, "/") && !filepath.IsAbs(name) {
		find = dir + "/" + name
	}
	path, err := exec.LookPath(find)
	switch {
	case errors.Is(err, exec.ErrDot), err == nil:
		return filepath.Abs(path) // the process starts in dir
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("command %q: there is no such program in $PATH", name)
	}
	return "", fmt.Errorf("command %q cannot be run: %w", name, err)
}

// Streams reports whether one process should filter so many items, as far as it is known how long that takes.
func (h *execHandler) Streams(items int64, timeout time.Duration) bool {
	return h.options.Concurrency == 1 && h.size.Items == 0 && h.pace.Fits(items, timeout)
}

func (*execHandler) Traits() calls.Traits { return calls.Traits{Form: calls.Lines} }

func (h *execHandler) Call(c *calls.Call) error {
	scratch := h.buffers.Get().(*[]byte)
	defer h.buffers.Put(scratch)
	lines := c.Lines(scratch)
	at := c.Place.(*callPlace).slot
	began := time.Now()
	ctx := c.Begin()
	defer func() { c.End() }()
	err := h.run(ctx, c, lines)
	for isUnbegun(err) {
		c.End() // a wait is none of its time
		if !at.awaitResources(c, err) {
			return err
		}
		began, ctx = time.Now(), c.Begin()
		err = h.run(ctx, c, lines)
	}
	at.begun()
	if slowsDown(c, err) {
		return nil
	}
	if err != nil {
		return calls.CauseOf(ctx, err)
	}
	if err := lines.Accept(); err != nil {
		return err
	}
	h.pace.Learn(lines.Len(), time.Since(began))
	return nil
}

// run gives the lines to one process and reads its answer.
func (h *execHandler) run(ctx context.Context, call *calls.Call, lines calls.Stream) error {
	end, err := h.processes.run(ctx, call, h.path, h.argv, lines)
	switch {
	case err != nil:
		return err
	case end.status != nil && asksForLess(end.status):
		return SlowDown(retryAfter(end.stderr))
	case end.status != nil:
		return endFault(end.status, end.stderr)
	}
	return nil
}

// endFault describes how a process ended: "exit 3" or by which signal, and the end of its standard error.
func endFault(err error, stderr string) *calls.Fault {
	fault := &calls.Fault{Kind: job.KindCrash, Err: job.Error{Type: "Exit", Message: err.Error(), Stack: stderr}}
	if signaled(err) {
		fault.Err.Type = "Signal"
	} else if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		fault.Kind, fault.Err.Message = job.KindExit, fmt.Sprintf("exit %d", exit.ExitCode())
	}
	if last := lastLine(stderr); last != "" {
		fault.Err.Message += ": " + last
	}
	return fault
}

const (
	// exitSlowDown is the exit status of a filter's slow-down request: EX_TEMPFAIL of sysexits.h.
	exitSlowDown = 75
	// slowDownDefault is its duration if the last line on standard error does not say.
	slowDownDefault = time.Second
)

func asksForLess(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == exitSlowDown
}

// retryAfter finds "retry-after: SECONDS" in the last line of a filter's standard error.
func retryAfter(stderr string) time.Duration {
	name, value, _ := strings.Cut(lastLine(stderr), ":")
	seconds, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if !strings.EqualFold(strings.TrimSpace(name), "retry-after") || err != nil || !(seconds > 0) {
		return slowDownDefault
	}
	return frames.Seconds(seconds)
}

// signaled reports whether a process was ended by a signal.
func signaled(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

func lastLine(s string) string {
	s = strings.TrimRight(s, "\n\r ")
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}
