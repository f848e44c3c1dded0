package activities

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/activity"
)

// heartbeatThrottle leaves out heartbeats that would say little. The SDK does so too, but its measure is the worker's,
// and the slots of loops need theirs every second.
type heartbeatThrottle struct {
	least time.Duration // between two heartbeats
	last  time.Time
}

// newHeartbeatThrottle sends one heartbeat, and further ones when four tenths of the timeout, or a minute, are over:
// offered every quarter, that is each second one.
func newHeartbeatThrottle(timeout time.Duration) *heartbeatThrottle {
	return &heartbeatThrottle{least: min(timeout*4/10, time.Minute)}
}

// send reports whether a heartbeat is sent now.
func (t *heartbeatThrottle) send(now time.Time) bool {
	if !t.last.IsZero() && now.Sub(t.last) < t.least {
		return false
	}
	t.last = now
	return true
}

// beating heartbeats in the background until the returned function is called: for activities whose heartbeats say only
// that their process lives, and these details, since what they wait for (an input, the disk) may take long. The
// function reports whether there have been any heartbeats.
func beating(ctx context.Context, details ...any) (stop func() bool) {
	if !activity.IsActivity(ctx) || activity.GetInfo(ctx).HeartbeatTimeout <= 0 {
		return func() bool { return false }
	}
	begun := false
	done, ended := make(chan struct{}), make(chan struct{})
	failed := func(err error) { activity.GetLogger(ctx).Error("no more heartbeats", "error", err) } // so the activity will expire
	trap.Watched("heartbeating", failed, func() {
		defer close(ended)
		ticks := time.NewTicker(activity.GetInfo(ctx).HeartbeatTimeout / 4)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				begun = true
				activity.RecordHeartbeat(ctx, details...)
			case <-done:
				return
			}
		}
	})
	return func() bool { close(done); <-ended; return begun }
}

// beat returns what offers heartbeats: it sends one if the server expects one, or if something has been answered.
func (e *execution) beat(timeout time.Duration, send func()) func(now time.Time) {
	throttle, offered := newHeartbeatThrottle(timeout), e.began
	var paid job.Usage // that the server knows of
	return func(now time.Time) {
		used := e.allow.Used()
		expected := used != paid && now.Sub(throttle.last) >= progressEvery // what a dead worker has paid for should be known
		if now.Sub(offered) >= timeout/4 {
			offered, expected = now, throttle.send(now) || expected
		}
		if e.acts.progress.due(e.in.Ref.Run, now) || expected {
			throttle.last, paid = now, used
			send()
		}
	}
}

const (
	// progressEvery is how often a worker reports what is answered of the batches of a job that it runs, if none of
	// them ends meanwhile and something has been answered: a heartbeat costs as much as a batch.
	progressEvery = 1500 * time.Millisecond
	// progressLook is how often it looks whether there is something to report.
	progressLook = 500 * time.Millisecond
)

// progress is what a worker's batches have done that have not ended. One heartbeat has those of all batches of a job,
// so that there are few heartbeats, however many batches run.
type progress struct {
	mu   sync.Mutex
	jobs map[string]*jobProgress // by run ID
}

// jobProgress is that of one job.
type jobProgress struct {
	running  []*execution
	last     time.Time // when the job has heard of any of them
	answered int64     // that it has heard of
}

// begin adds an execution of a batch.
func (n *progress) begin(e *execution) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.jobs == nil {
		n.jobs = map[string]*jobProgress{}
	}
	j := n.jobs[e.in.Ref.Run]
	if j == nil {
		j = &jobProgress{last: e.began}
		n.jobs[e.in.Ref.Run] = j
	}
	j.running = append(j.running, e)
}

// end removes an execution: the job hears of it by its result.
func (n *progress) end(e *execution) {
	n.mu.Lock()
	defer n.mu.Unlock()
	j := n.jobs[e.in.Ref.Run]
	if j == nil {
		return
	}
	j.running = slices.DeleteFunc(j.running, func(other *execution) bool { return other == e })
	j.last = time.Now()
	if len(j.running) == 0 {
		delete(n.jobs, e.in.Ref.Run)
	}
}

// due reports whether one of the job's batches sends a heartbeat now because something has been answered.
func (n *progress) due(run string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	j := n.jobs[run]
	if j == nil || now.Sub(j.last) < progressEvery {
		return false
	}
	var answered int64
	for _, e := range j.running {
		done, _ := e.live.Counts()
		answered += done
	}
	if answered == j.answered {
		return false
	}
	j.last, j.answered = now, answered
	return true
}

// of returns how far the batches of e's job are, e first: at most [wire.MaxNews].
func (n *progress) of(e *execution) []wire.Answered {
	n.mu.Lock()
	defer n.mu.Unlock()
	j := n.jobs[e.in.Ref.Run]
	if j == nil {
		return nil
	}
	var all []wire.Answered
	if own, ok := e.answered(); ok {
		all = append(all, own)
	}
	for _, other := range j.running {
		if len(all) == wire.MaxProgress {
			break
		}
		if a, ok := other.answered(); ok && other != e {
			all = append(all, a)
		}
	}
	return all
}

// answered returns how much of the execution is answered; false if there is nothing to say. What is between two stages
// is not done.
func (e *execution) answered() (wire.Answered, bool) {
	done, failed := e.live.Counts()
	done = min(done, e.in.Todo())
	if done == 0 || e.in.PassesOn() || !activity.IsActivity(e.ctx) {
		return wire.Answered{}, false
	}
	batch := e.in.Batch
	return wire.Answered{
		Activity: activity.GetInfo(e.ctx).ActivityID, Items: done, Failed: min(failed, done),
		Bytes: int64(float64(batch.Length) * float64(done) / float64(batch.Count)),
	}, true
}

// liveOf has the outcomes of an assignment counted as they come.
func (e *execution) liveOf(a calls.Answer) calls.Answer {
	a.Live = &e.live
	return a
}
