package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/child"
	"github.com/stint-run/stint/internal/run/frames"
	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// Exit statuses of the slots' processes of Go handlers.
const (
	exitNotReady = 1
	exitProtocol = 2
)

func canHaveProcesses() error {
	if err := child.CanRunAgain(); err != nil {
		return fieldError("Processes", "%v", err)
	}
	return nil
}

// inProcesses makes a handler that runs h in processes of this program, for Options.Processes.
// number is the handler's number in [childProcesses].
func inProcesses(h Handler, number int) Handler {
	return Handler{
		name:  h.name,
		check: func(o Options) error { return errors.Join(canHaveProcesses(), o.checkCPUs()) },
		open: func(s dependencies) (calls.Handler, service, error) {
			inner, _, err := h.open(s)
			if err != nil {
				return nil, nil, err
			}
			env := append(s.options.childEnv(), oneThread(s.options.Env)...)
			return (&host{
				dependencies: s, path: child.SelfPath, argv: os.Args, env: append(env, slotHandler+"="+strconv.Itoa(number)), inner: inner,
			}).open()
		},
	}
}

// failed returns the fault of a call that the program has answered with an error. An error of this
// package's own code in the program keeps its kind.
func (h *host) failed(e job.Error) *calls.Fault {
	if length := calls.LengthFault(0, 0); h.inner != nil && e.Type == length.Err.Type {
		return &calls.Fault{Kind: length.Kind, Err: e}
	}
	return &calls.Fault{Kind: job.KindError, Err: calls.Bounded(e)}
}

// serveSlot serves a Go handler in a slot's process until the worker sends bye or closes the pipe.
func serveSlot(h Handler, p *slotProcess) error {
	s := &slotServer{out: p.out, acquired: map[int64]chan *job.Error{}, stopped: make(chan struct{})}
	return s.serve(h, Options{}.withDefaults(), frames.NewReader(p.in, frames.MaxFrame))
}

// slotServer speaks the program's side of the serve protocol for a Go handler.
type slotServer struct {
	handler calls.Handler
	hello   wire.HelloFrame

	writing sync.Mutex
	out     io.Writer

	mu       sync.Mutex
	acquired map[int64]chan *job.Error // by the number of the acquisition
	lastID   int64
	notice   wire.StopNotice
	stopped  chan struct{} // closed once there is a notice
}

func (s *slotServer) serve(h Handler, o Options, r *frames.Reader) error {
	line, err := r.Next()
	if err != nil {
		return fmt.Errorf("reading hello: %w", err)
	}
	if err := frames.Decode(line, &s.hello); err != nil || s.hello.Type != frames.TypeHello {
		return fmt.Errorf("hello expected: %w", errors.Join(err, frames.Broken(line, nil)))
	}
	service, err := s.open(h, o)
	if err != nil {
		fault := calls.FaultOf(err).Err
		_ = s.write(wire.ReadyFrame{Type: frames.TypeReady, Error: &fault}) // a worker that is gone needs no answer
		os.Exit(exitNotReady)
	}
	if service != nil {
		defer service.Close()
	}
	requests := make(chan wire.CallFrame)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer close(requests)
	callers := 0
	pass := func(call wire.CallFrame) {
		if callers < max(1, s.hello.Concurrency) {
			select {
			case requests <- call:
				return
			default: // all have calls in hand
			}
			callers++
			serving.Go(func() {
				if err := trap.Run("making calls", func() { s.makeCalls(requests) }); err != nil {
					defective(err)
				}
			})
		}
		requests <- call
	}
	stacks := make(chan os.Signal, 1)
	signal.Notify(stacks, syscall.SIGQUIT)
	trap.Watched("writing stacks", defective, func() { writeStacks(stacks) })
	if err := s.write(wire.ReadyFrame{Type: frames.TypeReady, Name: os.Args[0], Stack: "QUIT"}); err != nil {
		return err
	}
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		bye, err := s.handle(line, pass)
		if bye || err != nil {
			return err
		}
	}
}

// open makes and starts the handler: this process is its only slot.
func (s *slotServer) open(h Handler, o Options) (service, error) {
	o.Slots = 1
	handler, service, err := h.open(dependencies{
		options: o, worker: s.hello.Worker, log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		info: func(int, int) SlotInfo {
			return SlotInfo{
				Worker: s.hello.Worker, Slot: s.hello.Slot, Incarnation: s.hello.Incarnation,
				MaxRestarts: s.hello.MaxRestarts, Seed: s.hello.Seed,
			}
		},
	})
	if err != nil {
		return nil, err
	}
	s.handler = handler
	if service != nil {
		err = service.start(context.Background())
	}
	return service, err
}

func (s *slotServer) handle(line []byte, pass func(wire.CallFrame)) (bye bool, err error) {
	name, err := frames.Type(line)
	if err != nil {
		return false, err
	}
	switch name {
	case frames.TypeCall:
		return false, with(bytes.Clone(line), func(f *wire.CallFrame) error { pass(*f); return nil }) // the next line overwrites it
	case frames.TypeAcquired:
		return false, with(line, s.acquiredTimer)
	case frames.TypeStopping:
		return false, with(line, s.stopping)
	case frames.TypeBye:
		return true, nil
	}
	return false, nil
}

func (s *slotServer) stopping(f *wire.StoppingFrame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notice.Deadline.IsZero() {
		s.notice = wire.StopNotice{Deadline: time.Now().Add(frames.Seconds(f.Grace)), Reason: f.Reason}
		close(s.stopped)
	}
	return nil
}

func (s *slotServer) stopNotice(context.Context) (wire.StopNotice, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notice, true
}

// requestStop passes a request on. Whether the job still runs is not known here.
func (c *slotCaller) requestStop(_ context.Context, stop job.Stop) error {
	return c.write(wire.RequestStopFrame{Type: frames.TypeRequestStop, Reason: stop.Reason, Error: stop.Error, Call: c.call.Load()})
}

// write sends a frame. If the worker has gone, this process ends.
func (s *slotServer) write(frame any) error {
	line, err := frames.Encode(frame)
	if err != nil {
		return err
	}
	return s.writeLine(line)
}

func (s *slotServer) writeLine(line []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.out.Write(line)
	return err
}

// slotCaller makes one call at a time.
type slotCaller struct {
	*slotServer
	call atomic.Int64 // in hand
}

// makeCalls makes the calls that come.
func (s *slotServer) makeCalls(requests <-chan wire.CallFrame) {
	c := &slotCaller{slotServer: s}
	ctx := timers.NewContext(context.Background(), watchdog.NewRemote(s.hello.Worker, c))
	solo := calls.NewSolo(ctx, s.handler, calls.WatchLimits{Stopped: s.stopped, Notice: s.stopNotice, Request: c.requestStop})
	defer solo.Close()
	for call := range requests {
		c.call.Store(call.ID)
		solo.Spans = calls.Under(call.Traceparent)
		items := call.Items
		if call.Item != nil {
			items = []json.RawMessage{call.Item}
		}
		if err := s.answer(solo, call.ID, items, call.CSV); err != nil {
			fmt.Fprintf(os.Stderr, "answering call %d: %v\n", call.ID, err)
			os.Exit(exitProtocol)
		}
	}
}

// defective ends a slot's process, one of whose own goroutines has panicked: the worker reports its last words.
func defective(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(exitProtocol)
}

// Results of a handler that takes items one by one are sent as they come, in groups that take about
// sendEvery: results from before a crash are kept.
const sendEvery = 10 * time.Millisecond

func (s *slotServer) answer(solo *calls.Solo, id int64, items []json.RawMessage, records bool) error {
	size := len(items)
	if s.handler.Traits().OneByOne {
		size = 1
	}
	var line []byte
	for done := 0; done < len(items); {
		some := items[done:min(len(items), done+size)]
		began := time.Now()
		outcomes, err := solo.Call(some, records)
		if used := solo.Used(); !used.IsZero() {
			if err := s.write(wire.CostFrame{Type: frames.TypeCost, Usage: used, Call: id}); err != nil {
				return err
			}
		}
		if err != nil {
			fault := calls.FaultOf(err)
			return s.write(wire.ResultsFrame{Type: frames.TypeResults, ID: id, Error: &fault.Err, RetryAfter: retryAfterOf(fault)})
		}
		slow := solo.SlowedDown()
		if slow > 0 {
			if err := s.write(wire.SlowDownFrame{Type: frames.TypeSlowDown, After: slow.Seconds(), Call: id}); err != nil {
				return err
			}
		}
		done += len(outcomes)
		answer := wire.ResultsFrame{ID: id, Results: resultsOf(outcomes), More: done < len(items) && slow == 0}
		line = frames.AppendResults(&answer, line[:0])
		if err := s.writeLine(line); err != nil || slow > 0 {
			return err
		}
		switch {
		case len(outcomes) < len(some): // there was no room for all
			size = len(outcomes)
		case time.Since(began) < sendEvery:
			size *= 2
		default:
			size = max(1, size/2)
		}
	}
	return nil
}

func resultsOf(outcomes []calls.Outcome) []wire.ResultFrame {
	results := make([]wire.ResultFrame, len(outcomes))
	for i, o := range outcomes {
		switch {
		case o.Fault != nil:
			results[i].Error, results[i].RetryAfter = &o.Fault.Err, retryAfterOf(o.Fault)
		case o.Drop:
			results[i].Drop = true
		default:
			results[i].Value = o.Value
		}
	}
	return results
}

// retryAfterOf returns the seconds after which the item of the fault, or each item of the call, is to be called
// again; nil: it has failed.
func retryAfterOf(f *calls.Fault) *float64 {
	if f.After == 0 {
		return nil
	}
	return new(f.After.Seconds())
}

// Acquire asks the worker for a timer, for package timers.
func (s *slotCaller) Acquire(ctx context.Context, after time.Duration, t timers.Timer) error {
	answer := make(chan *job.Error, 1)
	s.mu.Lock()
	s.lastID++
	id := s.lastID
	s.acquired[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.acquired, id)
		s.mu.Unlock()
	}()
	f := wire.AcquireFrame{Type: frames.TypeAcquire, ID: id, Scope: t.Scope, After: after.Seconds(), Call: s.call.Load()}
	if t.ReportOnly {
		f.Action = frames.ActionReport
	}
	if t.Signal != 0 {
		for name, signal := range endSignals {
			if signal == t.Signal {
				f.Signal = name
			}
		}
	}
	if err := s.write(f); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return refusal(t.Scope, err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refusal returns the error of package timers that says why the worker holds no timer for the scope.
func refusal(scope string, err *job.Error) error {
	switch {
	case err == nil:
		return nil
	case err.Type == "ScopeError":
		return &timers.ScopeError{Scope: scope, Reason: strings.TrimPrefix(err.Message, fmt.Sprintf("scope %q: ", scope))}
	}
	return fmt.Errorf("the worker holds no timer for scope %s: %s: %s", scope, err.Type, err.Message)
}

// Release gives a timer back.
func (s *slotServer) Release(scope string) error {
	return s.write(wire.ReleaseFrame{Type: frames.TypeRelease, Scope: scope})
}

func (s *slotServer) acquiredTimer(f *wire.AcquiredFrame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer := s.acquired[f.ID]; answer != nil {
		answer <- f.Error
	}
	return nil
}
