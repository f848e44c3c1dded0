package worker

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/child"
	"github.com/stint-run/stint/internal/run/frames"
	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// ending is why a program was made to end.
type ending struct {
	fault  *calls.Fault // of the calls in hand
	guilty int64        // the call that caused it; 0: unknown
	free   bool         // the program did not cause it: all calls in hand had to end
}

// over reports whether the process has ended.
func (p *program) over() bool { return calls.Closed(p.exited) }

// await is the life of a program after its start. When it returns, nothing is left of the program.
func (p *program) await(reading *sync.WaitGroup) {
	exit := p.child.Wait()
	close(p.exited)
	p.pipes.Hurry()
	reading.Wait()
	p.outbox.Close()
	p.pipes.Close()
	p.client.Close()
	p.fate = p.conclude(exit)
}

// conclude ends the calls in hand. It returns how the program ended, nil if it was asked to.
func (p *program) conclude(exit error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var why ending
	switch {
	case p.why != nil:
		why = *p.why
		if why.fault.Err.Stack == "" {
			fault := *why.fault
			fault.Err.Stack = p.stderr.Text()
			why.fault = &fault
		}
	case p.saidBye && len(p.calls) == 0:
		return nil
	default:
		why.fault = p.crash(exit)
	}
	p.free = why.free
	// If one of several calls in hand has expired, the program was serving the others all the while.
	if p.why != nil && why.guilty != 0 && why.fault.Kind == job.KindExpired && len(p.calls) > 1 {
		p.free = true
	}
	unknown := why.guilty == 0 && len(p.calls) > 1
	if ids := slices.Sorted(maps.Keys(p.calls)); why.guilty == 0 && !why.free && len(ids) > 0 {
		suspects := make([]*pending, len(ids))
		for i, id := range ids {
			suspects[i] = p.calls[id]
		}
		p.slot.accuse(suspects)
	}
	counts := why.guilty // the call that counts it
	if counts == 0 {
		counts = slices.Min(append(slices.Collect(maps.Keys(p.calls)), p.lastID))
	}
	for id, c := range p.calls {
		p.free = p.free || c.isolating
		fault := *why.fault
		fault.Collateral = unknown || why.guilty != 0 && why.guilty != id
		if fault.Collateral {
			fault.Kind = job.KindCrash
		}
		fault.Counted = id != counts
		c.end(&fault)
	}
	clear(p.calls)
	if p.saidBye {
		return nil
	}
	return why.fault
}

// crash returns how the process ended by itself.
func (p *program) crash(exit error) *calls.Fault {
	if exit == nil {
		exit = errExited
	}
	fault := endFault(exit, p.stderr.Text())
	fault.Kind = job.KindCrash // it should have stayed, whatever its status
	if signaled(exit) && p.host.oomKills() > p.oomKills {
		fault.Err.Message += " (likely out of memory: the kernel has killed a process of this control group)"
	}
	return fault
}

// end requests the program's stacks and has it killed. Only the first reason counts.
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
	p.child.Kill()
}

// blame notes why the program is made to end. It returns false if there is a reason already.
func (p *program) blame(why ending) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why != nil {
		return false
	}
	p.why = &why
	return true
}

// endSoftly ends the program: TERM first, and KILL after the limit. It returns the last signal; it is not ok
// if the program was already about to end, or if that signal was refused.
func (p *program) endSoftly(why ending, limit time.Duration) (last syscall.Signal, ok bool) {
	if !p.blame(why) {
		return 0, false
	}
	last, refused := p.child.EndSoftly(p.exited, limit)
	return last, refused == nil
}

// broken ends a program that does not keep to the protocol.
func (p *program) broken(err error) {
	p.end(ending{fault: calls.Faultf(job.KindCrash, "Protocol", "the program broke the serve protocol: %v", err)}, false)
}

// goodbye asks the program to end, and ends it in the usual steps if it does not.
func (p *program) goodbye() {
	p.mu.Lock()
	p.saidBye = true
	p.mu.Unlock()
	p.send(wire.ByeFrame{Type: frames.TypeBye})
	select {
	case <-p.exited:
	case <-time.After(byeLimit):
		p.endSoftly(ending{fault: calls.Faultf(job.KindCrash, "Exit", "it did not end when it was asked to")}, p.host.options.KillAfter)
	}
	<-p.ended
}

// Reap ends the program because one of its timers has expired.
func (p *program) Reap(ctx context.Context, e watchdog.Expiry) error {
	if said := p.condemn(e.Scope); !said { // it may be tried ten times a second
		p.host.observe(slotEvent{Kind: timerExpired, Slot: p.slot.number, PID: p.pid(), Incarnation: p.incarnation, Err: e.Err()})
	}
	why := ending{fault: calls.Faultf(job.KindExpired, "Expired",
		"scope %s was held longer than %v (%v overdue)", e.Scope, e.After, e.Overdue.Round(time.Millisecond))}
	p.mu.Lock()
	if id := p.scopes[e.Scope]; p.calls[id] != nil {
		why.guilty = id
	}
	p.mu.Unlock()
	if e.Signal != 0 && e.Signal != syscall.SIGKILL {
		if p.blame(why) {
			_ = p.child.SignalGroup(e.Signal) // if it is refused, KILL may be, too
		}
		select {
		case <-p.exited:
			return nil
		case <-ctx.Done():
		case <-time.After(p.host.options.KillAfter):
		}
		p.child.Kill()
	} else {
		p.end(why, true)
		p.child.Kill() // again, if it was refused before
	}
	if err := p.child.Refused(); err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		if !p.over() {
			return fmt.Errorf("process %d has been killed, and has not ended: %w", p.pid(), ctx.Err())
		}
	}
	return nil
}

// condemn ends the heartbeats of batches with calls in the program: it may not be killed in time, or at all. It returns
// whether the expiry of this scope's timer has been reported.
func (p *program) condemn(scope string) (said bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	said = p.condemned && p.expired == scope
	p.condemned, p.expired = true, scope
	for _, c := range p.calls {
		c.doubt()
	}
	return said
}

// Settle waits until the frames that the program has sent so far have been handled (T5).
func (p *program) Settle(ctx context.Context) {
	target := p.sent.Written()
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for {
		if p.sent.Drained() || p.handled.Load() >= target {
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

// stacks asks the program for its stacks and returns the end of its standard error.
func (p *program) stacks() string {
	p.mu.Lock()
	signal := p.stackSignal
	p.mu.Unlock()
	if signal == 0 {
		return p.stderr.Text()
	}
	before := p.stderr.Capture()
	p.child.Signal(signal)
	limit := time.After(stackLimit)
	quiet := time.NewTicker(stackQuiet)
	defer quiet.Stop()
	for last := before; ; {
		select {
		case <-p.exited:
			<-p.errors
		case <-limit:
		case <-quiet.C:
			if now := p.stderr.Written(); now == before || now != last {
				last = now
				continue
			}
		}
		return p.stderr.Captured()
	}
}

// stackSignals are the signals that a program may choose for requests for its stacks.
var stackSignals = map[string]syscall.Signal{
	"USR1": child.SigUSR1, "USR2": child.SigUSR2, "QUIT": syscall.SIGQUIT, "ABRT": syscall.SIGABRT,
}

// writeStacks writes, on request, where the handler's calls are. It runs as long as the process.
func writeStacks(asked <-chan os.Signal) {
	for range asked {
		buf := make([]byte, 8<<20)
		buf = buf[:runtime.Stack(buf, true)]
		for stack := range bytes.SplitSeq(buf, []byte("\n\n")) {
			if bytes.Contains(stack, []byte("worker.(*slotServer).makeCalls(")) {
				_, _ = os.Stderr.Write(append(stack, '\n')) // nobody could receive the error
			}
		}
	}
}
