package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/child"
	"github.com/stint-run/stint/internal/run/frames"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// handle handles one frame of the program.
func (p *program) handle(line []byte) error {
	name, err := frames.Type(line)
	if err != nil {
		return err
	}
	switch name {
	case frames.TypeResults:
		return p.takeResults(line)
	case frames.TypeReady:
		return with(line, p.getReady)
	case frames.TypeAcquire:
		return with(line, p.acquire)
	case frames.TypeRelease:
		return with(line, p.release)
	case frames.TypeLog:
		return with(line, p.log)
	case frames.TypeMetric:
		return with(line, p.metric)
	case frames.TypeRequestStop:
		return with(line, p.requestStop)
	case frames.TypeSlowDown:
		return with(line, p.slowDown)
	case frames.TypeCost:
		return with(line, p.cost)
	}
	return nil // of a later version of the protocol
}

// takeResults handles a frame of results. Its list is reused, as most frames are of this type.
func (p *program) takeResults(line []byte) error {
	if cap(p.frame.Results) > 4*serveItems {
		p.frame = wire.ResultsFrame{}
	}
	if err := frames.Decode(line, &p.frame); err != nil {
		return err
	}
	defer clear(p.frame.Results) // which are parts of the line
	if err := p.results(&p.frame); err != nil {
		return frames.Broken(line, err)
	}
	return nil
}

// maxRest bounds a slow-down request.
const maxRest = time.Hour

// slowDown passes the request on to the jobs whose calls are under way. The slot pauses if one of them slows
// down, or if there are none.
func (p *program) slowDown(f *wire.SlowDownFrame) error {
	after := min(frames.Seconds(f.After), maxRest)
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.meant(f.Call)
	pause := len(calls) == 0
	for _, c := range calls {
		c.slowed = true
		pause = c.slow(after) || pause
	}
	if pause {
		p.slot.rest(after)
	}
	return nil
}

// cost counts what a call has used. What belongs to none is counted for one of those that are under way.
func (p *program) cost(f *wire.CostFrame) error {
	if f.TokensIn < 0 || f.TokensOut < 0 || f.TokensCached < 0 {
		return errors.New("numbers of tokens are 0 or more")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.meant(f.Call) {
		c.spend(f.Usage)
		break
	}
	return nil
}

// meant returns the calls under way that a frame is about: the one that it names, or all if it names none or one that
// has ended. The lock is held.
func (p *program) meant(id int64) map[int64]*pending {
	if c := p.calls[id]; c != nil {
		return map[int64]*pending{id: c}
	}
	return p.calls
}

// with decodes a frame for fn.
func with[F any](line []byte, fn func(*F) error) error {
	var frame F
	if err := frames.Decode(line, &frame); err != nil {
		return err
	}
	if err := fn(&frame); err != nil {
		return frames.Broken(line, err)
	}
	return nil
}

func (p *program) getReady(f *wire.ReadyFrame) error {
	if f.Error != nil {
		p.end(ending{fault: initFault(*f.Error)}, false)
		return nil
	}
	signal, known := stackSignals[strings.TrimPrefix(f.Stack, "SIG")]
	if f.Stack != "" && !known {
		return fmt.Errorf("stack %.100q: use USR1, USR2, QUIT or ABRT", f.Stack)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isReady {
		return errors.New("it said ready twice")
	}
	p.isReady, p.stackSignal = true, signal
	close(p.ready)
	return nil
}

func (p *program) acquire(f *wire.AcquireFrame) error {
	var options []timers.Option
	switch signal, known := endSignals[f.Signal]; {
	case f.Action == frames.ActionReport:
		options = append(options, timers.ReportOnly())
	case f.Action != "" && f.Action != frames.ActionKill:
		return fmt.Errorf("action %.100q: use kill or report", f.Action)
	case f.Signal != "" && !known:
		return fmt.Errorf("signal %.100q: use KILL, TERM, INT, QUIT, ABRT, HUP, USR1 or USR2", f.Signal)
	case known:
		options = append(options, timers.WithSignal(signal))
	}
	p.inScope(f.Scope, f.Call)
	answer := wire.AcquiredFrame{Type: frames.TypeAcquired, ID: f.ID}
	if err := p.client.Acquire(f.Scope, frames.Seconds(f.After), options...); err != nil {
		answer.Error = &job.Error{Type: calls.FaultOf(err).Err.Type, Message: err.Error()}
	}
	p.send(answer)
	return nil
}

// inScope notes which call is in a scope. There are about as many as timers may be held.
func (p *program) inScope(scope string, call int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.scopes) >= frames.MaxTimers {
		clear(p.scopes)
	}
	p.scopes[scope] = call
}

func (p *program) release(f *wire.ReleaseFrame) error {
	p.client.Release(f.Scope)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.scopes, f.Scope)
	return nil
}

// endSignals are the signals that a timer may end its program with.
var endSignals = map[string]syscall.Signal{
	"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT,
	"ABRT": syscall.SIGABRT, "HUP": syscall.SIGHUP, "USR1": child.SigUSR1, "USR2": child.SigUSR2,
}

var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func (p *program) log(f *wire.LogFrame) error {
	level, known := levels[f.Level]
	if !known {
		return fmt.Errorf("level %.100q: use debug, info, warn or error", f.Level)
	}
	fields := child.Fields(f.Fields)
	if f.Call != 0 {
		fields = append(fields, "call", f.Call)
	}
	p.stderr.Message(level, f.Message, fields...)
	return nil
}

func (p *program) metric(f *wire.MetricFrame) error {
	if f.Kind != "counter" && f.Kind != "gauge" {
		return fmt.Errorf("kind %.100q: use counter or gauge", f.Kind)
	}
	p.host.measure(f.Name, f.Kind == "gauge", p.slot.number, f.Value)
	return nil
}

// requestStop stops the jobs whose calls are under way, once in each call. Before the program is ready there are none:
// the request means that it cannot serve.
func (p *program) requestStop(f *wire.RequestStopFrame) error {
	p.mu.Lock()
	ready := p.isReady
	jobs := map[string]struct{}{}
	for _, c := range p.meant(f.Call) {
		if !c.asked { // once a call: a program may ask for each of its items
			jobs[c.job] = struct{}{}
		}
		c.asked = true
	}
	p.mu.Unlock()
	if !ready {
		e := job.Error{Type: "StopRequested", Message: "it asked for a stop before it was ready: " + f.Reason}
		if f.Error != nil {
			e.Message += f.Error.Type + ": " + f.Error.Message
		}
		p.end(ending{fault: initFault(e)}, false)
		return nil
	}
	stop := job.Stop{Reason: text.Cut(f.Reason, calls.MaxErrorMessage)}
	if f.Error != nil {
		stop.Error = new(calls.Bounded(*f.Error))
	}
	for name := range jobs {
		p.host.tasks.Go(func() {
			p.host.run("asking for a stop", func() { p.passOn(name, stop) }, nil)
		})
	}
	return nil
}

// passOn asks for a stop of the job.
func (p *program) passOn(name string, stop job.Stop) {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	if err := p.host.requestStop(ctx, name, stop); err != nil {
		p.host.log.Warn("asking for a stop", "job", name, "error", err)
	}
}

// requestLimit bounds a request for a stop on its way to the server.
const requestLimit = 10 * time.Second

// initFault returns why a program could not get ready.
func initFault(e job.Error) *calls.Fault {
	return &calls.Fault{Kind: job.KindCrash, Err: calls.Bounded(e)}
}

// reading reads a program's frames: by one goroutine at a time, which has the turn. That is the
// program's own goroutine, or, while calls follow each other closely, each caller until it has its
// answer. It saves a call two changes of goroutines, which are most of the cost of a small one.
type reading struct {
	turn     sync.Mutex
	frames   *frames.Reader    // of the goroutine that has the turn, like the next three
	frame    wire.ResultsFrame // the last one of its type, to reuse its memory
	answered bool              // a call has ended
	stop     error             // why nothing more is read

	lends    bool          // callers may have the turn
	turns    atomic.Int64  // that callers have had
	recalled chan struct{} // the program's own goroutine should have the turn
}

// lent is how long the program's own goroutine leaves the frames alone before it checks whether callers still read
// them. So a frame between calls, or the request to end a call that takes longer than this, may be noticed up to two of
// these intervals late.
const lent = 10 * time.Millisecond

// startReading prepares the reading. The turn can be taken away from a caller if pipes have deadlines.
func (p *program) startReading() {
	p.sent = child.NewCountedPipe(p.pipes.Stdout)
	p.frames, p.recalled = frames.NewReader(p.sent, frames.MaxFrame), make(chan struct{}, 1)
	p.lends = p.host.options.Concurrency == 1 && p.pipes.Stdout.SetDeadline(time.Time{}) == nil
}

// read handles the program's frames until its standard output ends.
func (p *program) read() {
	for {
		p.takeTurn()
		if p.stop == nil {
			p.stop = p.readUntil(func() bool { return p.answered && p.lends })
		}
		err := p.stop
		p.turn.Unlock()
		if err != nil {
			p.stopReading(err)
			return
		}
		p.lend()
	}
}

// takeTurn takes the turn away from a caller, if one has it.
func (p *program) takeTurn() {
	if p.turn.TryLock() {
		return
	}
	_ = p.pipes.Stdout.SetDeadline(time.Now()) // it has deadlines, or it would not be lent
	p.turn.Lock()
	_ = p.pipes.Stdout.SetDeadline(time.Time{})
	if p.over() {
		p.pipes.Hurry() // it may be its deadline that was overwritten
	}
}

// lend leaves the frames to callers for as long as calls follow each other closely.
func (p *program) lend() {
	ticks := time.NewTicker(lent)
	defer ticks.Stop()
	for before := p.turns.Load(); ; {
		select {
		case <-ticks.C:
		case <-p.recalled:
			return
		case <-p.exited:
			return
		}
		now := p.turns.Load()
		if now == before {
			return // there is no call, or a long one
		}
		before = now
	}
}

// readAnswer has the caller read frames until its call has ended. It returns false if the program's
// own goroutine reads them.
func (p *program) readAnswer(c *pending) bool {
	if !p.lends || !p.turn.TryLock() {
		return false
	}
	defer p.turn.Unlock()
	p.turns.Add(1)
	if p.stop != nil || p.hasEnded(c) {
		return p.stop == nil
	}
	err := p.readUntil(func() bool { return c.ended })
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		p.stop = err
		p.recalled <- struct{}{} // there is room: nobody reads after this
	}
	return err == nil
}

// readUntil handles frames, one at least, until enough reports true. The caller has the turn.
func (p *program) readUntil(enough func() bool) error {
	for p.answered = false; ; {
		line, err := p.frames.Next()
		if err != nil {
			return err
		}
		err = p.handle(line)
		p.handled.Store(p.frames.Taken())
		if err != nil || enough() {
			return err
		}
	}
}

// stopReading handles the end of the program's frames.
func (p *program) stopReading(err error) {
	if errors.Is(err, io.EOF) {
		select {
		case <-p.exited:
		case <-time.After(byeLimit):
			p.broken(errors.New("it closed its standard output"))
		}
		return
	}
	if !p.over() { // a frame that a dying program has left unfinished is not a fault
		p.broken(err)
	}
	_, _ = io.Copy(io.Discard, p.pipes.Stdout) // ends with the process
}
