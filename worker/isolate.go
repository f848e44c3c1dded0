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
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/frames"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// isolatedPool, in the environment, makes a process the slot of an isolated Go handler: it serves
// the protocol once it calls New with that pool.
const isolatedPool = "STINT_ISOLATED_POOL"

// isolatedIn and isolatedOut make a process such a slot from its start on: what it prints must not get into the
// protocol. The pipes are those of the worker.
var isolatedIn, isolatedOut = func() (in, out *os.File) {
	if os.Getenv(isolatedPool) == "" {
		return nil, nil
	}
	in, out, err := takeStandardStreams()
	if err != nil {
		fmt.Fprintf(os.Stderr, "taking the standard streams of an isolated handler: %v\n", err)
		os.Exit(exitProtocol)
	}
	return in, out
}()

// Exit statuses of isolated handlers.
const (
	exitNotReady = 1
	exitProtocol = 2
)

// isolate makes a handler that runs h in processes of this program.
func isolate(h Handler, pool string) Handler {
	return Handler{
		name:  h.name,
		check: func(o Options) error { return errors.Join(canIsolate(), o.checkCPUs()) },
		open: func(s surroundings) (activities.Handler, service, error) {
			inner, _, err := h.open(s)
			if err != nil {
				return nil, nil, err
			}
			env := append(os.Environ(), s.options.Env...)
			return (&host{
				surroundings: s, path: selfPath, argv: os.Args, env: append(env, isolatedPool+"="+pool), inner: inner,
			}).open()
		},
	}
}

// failed is the fault of a call that the program has answered with an error. Where the error is of
// this package's own code in the program, it keeps its kind.
func (h *host) failed(e job.Error) *activities.Fault {
	if length := activities.LengthFault(0, 0); h.inner != nil && e.Type == length.Err.Type {
		return &activities.Fault{Kind: length.Kind, Err: e}
	}
	return &activities.Fault{Kind: job.KindError, Err: e}
}

// serveIsolated is what New does in a slot's process.
func serveIsolated(h Handler, o Options) {
	s := &isolated{out: isolatedOut, acquired: map[int64]chan *job.Error{}, stopped: make(chan struct{})}
	err := s.serve(h, o, frames.NewReader(isolatedIn, frames.MaxFrame))
	if err != nil {
		fmt.Fprintf(os.Stderr, "serving as an isolated handler: %v\n", err)
		os.Exit(exitProtocol)
	}
	os.Exit(0)
}

// isolated speaks the program's side of the serve protocol for a Go handler.
type isolated struct {
	handler activities.Handler
	hello   frames.Hello

	writing sync.Mutex
	out     io.Writer

	mu       sync.Mutex
	acquired map[int64]chan *job.Error // by the number of the acquisition
	lastID   int64
	notice   job.StopNotice
	stopped  chan struct{} // closed once there is a notice
}

func (s *isolated) serve(h Handler, o Options, r *frames.Reader) error {
	line, err := r.Next()
	if err != nil {
		return fmt.Errorf("reading hello: %w", err)
	}
	if err := frames.Decode(line, &s.hello); err != nil || s.hello.Type != frames.TypeHello {
		return fmt.Errorf("hello expected: %w", errors.Join(err, frames.Broken(line, nil)))
	}
	service, err := s.open(h, o)
	if err != nil {
		fault := activities.FaultOf(err).Err
		_ = s.write(frames.Ready{Type: frames.TypeReady, Error: &fault}) // a worker that is gone needs no answer
		os.Exit(exitNotReady)
	}
	if service != nil {
		defer service.close()
	}
	calls := make(chan frames.Call)
	var serving sync.WaitGroup
	for range max(1, s.hello.Concurrency) {
		serving.Go(func() { s.calls(calls) })
	}
	defer serving.Wait()
	defer close(calls)
	stacks := make(chan os.Signal, 1)
	signal.Notify(stacks, syscall.SIGQUIT)
	go tellStacks(stacks)
	if err := s.write(frames.Ready{Type: frames.TypeReady, Name: os.Args[0], Stack: "QUIT"}); err != nil {
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
		bye, err := s.handle(line, calls)
		if bye || err != nil {
			return err
		}
	}
}

// open makes and starts the handler: this process is its only slot.
func (s *isolated) open(h Handler, o Options) (service, error) {
	o.Slots = 1
	handler, service, err := h.open(surroundings{
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

func (s *isolated) handle(line []byte, calls chan<- frames.Call) (bye bool, err error) {
	name, err := frames.Type(line)
	if err != nil {
		return false, err
	}
	switch name {
	case frames.TypeCall:
		return false, with(bytes.Clone(line), func(f *frames.Call) error { calls <- *f; return nil }) // the next line takes its place
	case frames.TypeAcquired:
		return false, with(line, s.acquiredTimer)
	case frames.TypeStopping:
		return false, with(line, s.stopping)
	case frames.TypeBye:
		return true, nil
	}
	return false, nil
}

func (s *isolated) stopping(f *frames.Stopping) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notice.Deadline.IsZero() {
		s.notice = job.StopNotice{Deadline: time.Now().Add(frames.Seconds(f.Grace)), Reason: f.Reason}
		close(s.stopped)
	}
	return nil
}

func (s *isolated) stopNotice() (job.StopNotice, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notice, true
}

// requestStop passes a wish on. Whether the job still runs is not known here.
func (s *isolated) requestStop(_ context.Context, stop job.Stop) error {
	return s.write(frames.RequestStop{Type: frames.TypeRequestStop, Reason: stop.Reason, Error: stop.Error})
}

// write sends a frame. A worker that is gone takes this process with it.
func (s *isolated) write(frame any) error {
	line, err := frames.Encode(frame)
	if err != nil {
		return err
	}
	return s.writeLine(line)
}

func (s *isolated) writeLine(line []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.out.Write(line)
	return err
}

// calls makes the calls that come.
func (s *isolated) calls(calls <-chan frames.Call) {
	ctx := timers.NewContext(context.Background(), timers.NewRemote(s.hello.Worker, s))
	solo := activities.NewSolo(ctx, s.handler, activities.SoloStop{Stopped: s.stopped, Notice: s.stopNotice, Request: s.requestStop})
	defer solo.Close()
	for call := range calls {
		items := call.Items
		if call.Item != nil {
			items = []json.RawMessage{call.Item}
		}
		if err := s.answer(solo, call.ID, items); err != nil {
			fmt.Fprintf(os.Stderr, "answering call %d: %v\n", call.ID, err)
			os.Exit(exitProtocol)
		}
	}
}

// tellStacks writes, whenever asked for, where the handler's calls are. It lasts as long as the
// process.
func tellStacks(asked <-chan os.Signal) {
	for range asked {
		buf := make([]byte, 8<<20)
		buf = buf[:runtime.Stack(buf, true)]
		for _, stack := range bytes.Split(buf, []byte("\n\n")) {
			if bytes.Contains(stack, []byte("worker.(*isolated).calls(")) {
				_, _ = os.Stderr.Write(append(stack, '\n')) // there is nobody to tell
			}
		}
	}
}

// Results of a handler that takes items one by one are sent as they come, in runs that take about
// sendEvery: what was answered before a crash is kept.
const sendEvery = 10 * time.Millisecond

func (s *isolated) answer(solo *activities.Solo, id int64, items []json.RawMessage) error {
	size := len(items)
	if s.handler.Traits().OneByOne {
		size = 1
	}
	var line []byte
	for done := 0; done < len(items); {
		some := items[done:min(len(items), done+size)]
		began := time.Now()
		outcomes, err := solo.Call(some)
		if err != nil {
			return s.write(frames.Results{Type: frames.TypeResults, ID: id, Error: &activities.FaultOf(err).Err})
		}
		slow := solo.SlowedDown()
		if slow > 0 {
			if err := s.write(frames.SlowDown{Type: frames.TypeSlowDown, After: slow.Seconds()}); err != nil {
				return err
			}
		}
		done += len(some)
		answer := frames.Results{ID: id, Results: resultsOf(outcomes), More: done < len(items) && slow == 0}
		if line, err = answer.Append(line[:0]); err != nil {
			return err
		}
		if err := s.writeLine(line); err != nil || slow > 0 {
			return err
		}
		if time.Since(began) < sendEvery {
			size *= 2
		} else {
			size = max(1, size/2)
		}
	}
	return nil
}

func resultsOf(outcomes []activities.Outcome) []frames.Result {
	results := make([]frames.Result, len(outcomes))
	for i, o := range outcomes {
		switch {
		case o.Fault != nil:
			results[i].Error = &o.Fault.Err
		case o.Drop:
			results[i].Drop = true
		default:
			results[i].Value = o.Value
		}
	}
	return results
}

// Acquire asks the worker for a timer, for package timers.
func (s *isolated) Acquire(ctx context.Context, t timers.RemoteTimer) error {
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
	f := frames.Acquire{Type: frames.TypeAcquire, ID: id, Scope: t.Scope, After: t.After.Seconds()}
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

// refusal is why the worker holds no timer for the scope, as package timers has it.
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
func (s *isolated) Release(scope string) error {
	return s.write(frames.Release{Type: frames.TypeRelease, Scope: scope})
}

func (s *isolated) acquiredTimer(f *frames.Acquired) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer := s.acquired[f.ID]; answer != nil {
		answer <- f.Error
	}
	return nil
}
