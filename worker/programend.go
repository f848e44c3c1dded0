package worker

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/frames"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// ending is why a program was made to end.
type ending struct {
	fault  *activities.Fault // of the calls in hand
	guilty int64             // the one that is to blame; 0: nobody knows
}

// over reports whether the process has ended.
func (p *program) over() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// await is the life of a program after its start.
func (p *program) await(reading *sync.WaitGroup) {
	exit := p.child.wait()
	close(p.exited)
	p.pipes.hurry()
	reading.Wait()
	p.outbox.close()
	p.pipes.close()
	p.client.Close()
	p.fate = p.conclude(exit)
	close(p.ended)
}

// conclude ends the calls in hand, and returns how the program ended; nil where it was to.
func (p *program) conclude(exit error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var why ending
	switch {
	case p.why != nil:
		why = *p.why
		if why.fault.Err.Stack == "" {
			fault := *why.fault
			fault.Err.Stack = p.stderr.text()
			why.fault = &fault
		}
	case p.saidBye && len(p.calls) == 0:
		return nil
	default:
		why.fault = p.crash(exit)
	}
	unknown := why.guilty == 0 && len(p.calls) > 1 // each will be tried again, alone
	for id, c := range p.calls {
		p.free = p.free || c.isolating
		c.suspect = unknown
		fault := *why.fault
		fault.Collateral = unknown || why.guilty != 0 && why.guilty != id
		if fault.Collateral {
			fault.Kind = job.KindCrash
		}
		c.end(&fault)
	}
	clear(p.calls)
	if p.saidBye {
		return nil
	}
	return why.fault
}

// crash tells how the process ended by itself.
func (p *program) crash(exit error) *activities.Fault {
	if exit == nil {
		exit = errExited
	}
	fault := crash(exit, p.stderr.text())
	var status *exec.ExitError
	if errors.As(exit, &status) && signaled(status) && p.host.oomKills() > p.oomKills {
		fault.Err.Message += " (likely out of memory: the kernel has killed a process of this control group)"
	}
	return fault
}

// end has the program killed, for the first reason given. Its stacks are asked for before.
func (p *program) end(why ending, stacks bool) {
	if !p.blame(why) {
		return
	}
	if stacks {
		stack := p.stacks()
		p.mu.Lock()
		p.why.fault.Err.Stack = stack
		p.mu.Unlock()
	}
	p.child.kill()
}

// blame notes why the program is to end; false where that is settled already.
func (p *program) blame(why ending) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why != nil {
		return false
	}
	p.why = &why
	return true
}

// endSoftly has the program end: TERM first, and KILL after the limit.
func (p *program) endSoftly(why ending, limit time.Duration) {
	if p.blame(why) {
		p.child.endSoftly(p.exited, limit)
	}
}

// stacks asks the program for its stacks and returns the end of its standard error.
func (p *program) stacks() string {
	p.mu.Lock()
	signal := p.stackSignal
	p.mu.Unlock()
	if signal == 0 {
		return p.stderr.text()
	}
	before := p.stderr.capture()
	p.child.signal(signal)
	limit := time.After(stackLimit)
	quiet := time.NewTicker(stackQuiet)
	defer quiet.Stop()
	for last := before; ; {
		select {
		case <-p.exited:
			<-p.errors
		case <-limit:
		case <-quiet.C:
			if now := p.stderr.written(); now == before || now != last {
				last = now
				continue
			}
		}
		return p.stderr.captured()
	}
}

// broken ends a program that does not keep to the protocol.
func (p *program) broken(err error) {
	p.end(ending{fault: &activities.Fault{Kind: job.KindCrash, Err: job.Error{
		Type: "Protocol", Message: "the program broke the serve protocol: " + err.Error(),
	}}}, false)
}

// goodbye has the program end in peace, or else in the usual steps.
func (p *program) goodbye() {
	p.mu.Lock()
	p.saidBye = true
	p.mu.Unlock()
	p.send(frames.Bye{Type: frames.TypeBye})
	select {
	case <-p.exited:
	case <-time.After(byeLimit):
		p.endSoftly(ending{fault: &activities.Fault{Kind: job.KindCrash, Err: job.Error{Type: "Exit", Message: "it did not end when it was told to"}}}, termLimit)
	}
	<-p.ended
}

// Reap ends the program because one of its timers has expired.
func (p *program) Reap(ctx context.Context, e timers.Expiry) error {
	p.host.observe(SlotEvent{Kind: TimerExpired, Slot: p.slot.number, PID: p.pid(), Incarnation: p.incarnation, Err: e.Err()})
	why := ending{fault: &activities.Fault{Kind: job.KindExpired, Err: job.Error{
		Type:    "Expired",
		Message: fmt.Sprintf("scope %s was held longer than %v (%v overdue)", e.Scope, e.After, e.Overdue.Round(time.Millisecond)),
	}}}
	if e.Signal != 0 && e.Signal != syscall.SIGKILL {
		if p.blame(why) {
			p.child.signalGroup(e.Signal)
		}
		select {
		case <-p.exited:
			return nil
		case <-ctx.Done():
		case <-time.After(termLimit):
		}
		p.child.kill()
	} else {
		p.end(why, true)
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("killing process %d: %w", p.pid(), ctx.Err())
	}
}

// Settle waits until the frames that the program has sent so far have been dealt with (T5).
func (p *program) Settle(ctx context.Context) {
	target := p.sent.written()
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for {
		if p.sent.drained() || p.handled.Load() >= target {
			return
		}
		select {
		case <-ticks.C:
		case <-p.exited:
			return
		case <-ctx.Done():
			return
		}
	}
}
