package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// pace keeps a leg's history near three events a batch.
//
// Every end of a batch wakes the leg with a workflow task of three events, unless one is under way:
// then the end is taken in by the next. With batches ending one by one, that would double the
// history. But as long as batches wait in the pool's queue, a leg need not answer at once. So it
// takes its time over a workflow task: the ends that come meanwhile, which the server keeps, share
// the next one.
//
// This is no timer and leaves no trace in the history. The wait is in real time, outside of
// everything that the workflow decides, and on replay there is none.
type pace struct {
	ends   int           // of batches, since the last pause
	waited time.Duration // least time that one of them had lain in the queue
	last   time.Time     // of the last pause, in workflow time
}

const (
	// queueShare is the part of the time that batches lie in the queue by which the leg's answer
	// may be late: an end waits for at most two pauses, and the queue does not run dry.
	queueShare = 3
	// endShare, in percent, is the part of the time to the leg's end, once all is dispatched.
	endShare = 90
	// taskShare, in percent, is the most of the workflow task timeout that a pause takes.
	taskShare = 75
	maxPause  = 1500 * time.Millisecond
	minPause  = 5 * time.Millisecond
)

func (p *pace) landed(waited time.Duration) {
	if p.ends == 0 || waited < p.waited {
		p.waited = waited
	}
	p.ends++
}

// pause waits for as long as nobody waits for the leg.
func (p *pace) pause(l *leg) {
	now := workflow.Now(l.ctx)
	ends, since := p.ends, now.Sub(p.last)
	first := p.last.IsZero()
	p.ends, p.last = 0, now
	if first || ends == 0 || len(l.flying) == 0 || l.in.Number == 0 || l.halted() {
		return
	}
	wait := p.waited / queueShare
	if len(l.waiting) == 0 {
		left := since / time.Duration(ends) * time.Duration(len(l.flying))
		wait = left * endShare / 100
	}
	timeout := workflow.GetInfo(l.ctx).WorkflowTaskTimeout
	wait = min(wait, timeout*taskShare/100, maxPause)
	if wait < minPause || workflow.IsReplaying(l.ctx) {
		return
	}
	time.Sleep(wait) //workflowcheck:ignore
}
