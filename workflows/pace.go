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
// the next one. What the task has decided to dispatch leaves only at its end.
//
// This is no timer and leaves no trace in the history. The wait is in real time, outside of
// everything that the workflow decides, and on replay there is none.
type pace struct {
	sent int // batches dispatched since the last pause: they leave at the end of the next

	latest int64 // start of the batch that was started last, in Unix milliseconds; 0: none yet
	// Of late, so many batches have ended, which took busy and were started within span.
	ends int
	busy time.Duration
	span int64 // milliseconds
}

const (
	// queueShare is the part of the queue that may be worked off in one pause: an end waits for at
	// most two pauses, so the queue does not run dry.
	queueShare = 3
	// lastShare, in percent, is the part of what is left that may end in one pause, where all has
	// been dispatched and no other leg waits for places.
	lastShare = 65
	// lastFew batches are not waited for: a job may be waiting for the leg's end.
	lastFew = 2
	// maxEnds is the most ends that a pause gathers. The server fails a workflow task over which
	// it has to keep more than 100 events; an end is two.
	maxEnds = 40
	// memory is after how many ends all of them so far count half.
	memory = 32
	// taskShare, in percent, is the most of the workflow task timeout that a pause takes.
	taskShare = 75
	maxPause  = 1500 * time.Millisecond
	minPause  = 5 * time.Millisecond
)

// landed takes in the end of a batch: when it was started, and what it took.
func (p *pace) landed(started int64, took time.Duration) {
	first := p.latest == 0
	if !first {
		p.span += max(0, started-p.latest)
		p.ends++
		p.busy += took
	}
	p.latest = max(p.latest, started)
	if p.ends >= memory {
		p.ends, p.busy, p.span = p.ends/2, p.busy/2, p.span/2
	}
}

// pause waits for as long as nobody waits for the leg.
func (p *pace) pause(l *leg) {
	wait := p.length(len(l.flying), len(l.waiting) > 0 || l.nextLeg != "")
	p.sent = 0
	if l.in.Number == 0 || l.halted() {
		return
	}
	timeout := workflow.GetInfo(l.ctx).WorkflowTaskTimeout
	wait = min(wait, timeout*taskShare/100, maxPause)
	if wait < minPause || workflow.IsReplaying(l.ctx) {
		return
	}
	time.Sleep(wait) //workflowcheck:ignore
}

// length is how long nobody waits for a leg with so many batches dispatched. more says that others,
// of this leg or the next, follow them.
func (p *pace) length(flying int, more bool) time.Duration {
	if p.ends == 0 {
		return 0
	}
	took := p.busy / time.Duration(p.ends)
	// A worker that has batches to take starts one as soon as the one before has ended.
	every := min(time.Duration(p.span)*time.Millisecond/time.Duration(p.ends), took)
	if every <= 0 {
		return 0
	}
	ends := max(0, flying-lastFew) * lastShare / 100
	if more || p.sent > 0 {
		running := int((took + every - 1) / every)
		ends = max(0, flying-p.sent-running) / queueShare
	}
	return time.Duration(min(ends, maxEnds)) * every
}
