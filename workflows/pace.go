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
	sent int           // batches dispatched since the last pause, and not on their way before the next has ended
	ends int           // batches ended since the last pause
	busy time.Duration // sum of what these took

	latest int64 // start of the batch that was started last, in Unix milliseconds; 0: none yet
	span   int64 // milliseconds in which
	starts int64 // so many batches were started, of late
}

const (
	// queueShare is the part of the queue that may be worked off in one pause while batches wait
	// for a place: an end waits for at most two pauses, so the queue does not run dry.
	queueShare = 3
	// endShare is the same for a leg that has dispatched all: nobody waits for it but its end.
	endShare = 2
	// lastFew batches are not waited for: a job may be waiting for the leg's end.
	lastFew = 2
	// maxEnds is the most ends that a pause gathers. The server fails a workflow task over which
	// it has to keep more than 100 events; an end is two.
	maxEnds = 40
	// memory is after how many starts the older half of them weighs half as much.
	memory = 32
	// taskShare, in percent, is the most of the workflow task timeout that a pause takes.
	taskShare = 75
	maxPause  = 1500 * time.Millisecond
	minPause  = 5 * time.Millisecond
)

// landed takes in the end of a batch: when it was started, and what it took.
func (p *pace) landed(started int64, took time.Duration) {
	p.ends++
	p.busy += took
	if p.latest > 0 && started > p.latest {
		p.span += started - p.latest
	}
	if p.latest > 0 {
		p.starts++
	}
	p.latest = max(p.latest, started)
	if p.starts >= memory {
		p.span, p.starts = p.span/2, p.starts/2
	}
}

// pause waits for as long as nobody waits for the leg.
func (p *pace) pause(l *leg) {
	wait := p.length(len(l.flying), len(l.waiting))
	p.sent, p.ends, p.busy = 0, 0, 0
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

// length is how long nobody waits for a leg with so many batches dispatched, and so many yet to be.
func (p *pace) length(flying, waiting int) time.Duration {
	if p.ends == 0 || p.starts == 0 {
		return 0
	}
	took := p.busy / time.Duration(p.ends)
	// A worker that has batches to take starts one as soon as the one before has ended.
	every := min(time.Duration(p.span)*time.Millisecond/time.Duration(p.starts), took)
	if every <= 0 {
		return 0
	}
	ends := max(0, flying-lastFew) / endShare
	if waiting > 0 || p.sent > 0 {
		running := int((took + every - 1) / every)
		ends = max(0, flying-p.sent-running) / queueShare
	}
	return time.Duration(min(ends, maxEnds)) * every
}
