package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/frames"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// handle deals with one frame of the program.
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
		return with(line, func(f *frames.Release) error { p.client.Release(f.Scope); return nil })
	case frames.TypeLog:
		return with(line, p.log)
	case frames.TypeMetric:
		return with(line, p.metric)
	case frames.TypeRequestStop:
		return with(line, p.requestStop)
	case frames.TypeSlowDown:
		return with(line, p.slowDown)
	}
	return nil // of a later version of the protocol
}

// takeResults takes results in. Their list is used again, as they are what most frames are.
func (p *program) takeResults(line []byte) error {
	if cap(p.frame.Results) > 4*serveItems {
		p.frame = frames.Results{}
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

// maxRest bounds a wish for no further call.
const maxRest = time.Hour

// slowDown gives the slot a rest, and passes the wish on to the jobs whose calls are under way.
func (p *program) slowDown(f *frames.SlowDown) error {
	after := min(frames.Seconds(f.After), maxRest)
	p.slot.rest(after)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		c.slowed = true
		c.slow(after)
	}
	return nil
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

// stackSignals are those that a program may have its stacks asked for with.
var stackSignals = map[string]syscall.Signal{
	"USR1": sigUSR1, "USR2": sigUSR2, "QUIT": syscall.SIGQUIT, "ABRT": syscall.SIGABRT,
}

func (p *program) getReady(f *frames.Ready) error {
	if f.Error != nil {
		p.end(ending{fault: initFault(*f.Error)}, false)
		return nil
	}
	signal, known := stackSignals[strings.TrimPrefix(f.Stack, "SIG")]
	if f.Stack != "" && !known {
		return fmt.Errorf("stack %q: use USR1, USR2, QUIT or ABRT", f.Stack)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isReady {
		return errTwice
	}
	p.isReady, p.name, p.stackSignal = true, f.Name, signal
	close(p.ready)
	return nil
}

func (p *program) acquire(f *frames.Acquire) error {
	var options []timers.Option
	switch signal, known := endSignals[f.Signal]; {
	case f.Action == frames.ActionReport:
		options = append(options, timers.ReportOnly())
	case f.Action != "" && f.Action != frames.ActionKill:
		return fmt.Errorf("action %q: use kill or report", f.Action)
	case f.Signal != "" && !known:
		return fmt.Errorf("signal %q: use KILL, TERM, INT, QUIT, ABRT, HUP, USR1 or USR2", f.Signal)
	case known:
		options = append(options, timers.WithSignal(signal))
	}
	answer := frames.Acquired{Type: frames.TypeAcquired, ID: f.ID}
	if err := p.client.Acquire(f.Scope, frames.Seconds(f.After), options...); err != nil {
		answer.Error = &job.Error{Type: activities.FaultOf(err).Err.Type, Message: err.Error()}
	}
	p.send(answer)
	return nil
}

// endSignals are those that a timer may have its program ended with.
var endSignals = map[string]syscall.Signal{
	"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT,
	"ABRT": syscall.SIGABRT, "HUP": syscall.SIGHUP, "USR1": sigUSR1, "USR2": sigUSR2,
}

var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func (p *program) log(f *frames.Log) error {
	level, known := levels[f.Level]
	if !known {
		return fmt.Errorf("level %q: use debug, info, warn or error", f.Level)
	}
	args := make([]any, 0, 2*len(f.Fields))
	for name, value := range f.Fields {
		args = append(args, name, value)
	}
	p.stderr.message(level, f.Message, args...)
	return nil
}

func (p *program) metric(f *frames.Metric) error {
	if f.Kind != "counter" && f.Kind != "gauge" {
		return fmt.Errorf("kind %q: use counter or gauge", f.Kind)
	}
	p.host.measure(Measurement{Name: f.Name, Gauge: f.Kind == "gauge", Value: f.Value, Slot: p.slot.number})
	return nil
}

// requestStop stops the jobs whose calls are under way. Before the program is ready there is none:
// it cannot serve.
func (p *program) requestStop(f *frames.RequestStop) error {
	p.mu.Lock()
	ready := p.isReady
	jobs := map[string]struct{}{}
	for _, c := range p.calls {
		jobs[c.job] = struct{}{}
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
	for name := range jobs {
		p.host.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
			defer cancel()
			if err := p.host.requestStop(ctx, name, job.Stop{Reason: f.Reason, Error: f.Error}); err != nil {
				p.host.log.Warn("asking for a stop", "job", name, "error", err)
			}
		})
	}
	return nil
}

// requestLimit bounds a wish for a stop on its way to the server.
const requestLimit = 10 * time.Second

// initFault is why a program could not get ready.
func initFault(e job.Error) *activities.Fault {
	return &activities.Fault{Kind: job.KindCrash, Err: e}
}
