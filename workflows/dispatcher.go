package workflows

import (
	"fmt"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pool"
	"github.com/stint-run/stint/workflows/internal/throttle"
	"go.temporal.io/sdk/workflow"
)

// dispatcher keeps a window of batches in flight, until its supply has ended or a stop comes. It counts the
// attempts of each batch, has failed ones tried again, and gives what is accepted to its recorder.
type dispatcher struct {
	ctx      workflow.Context
	ref      activities.Ref
	spec     job.Spec
	supply   supply
	recorder recorder
	job      jobLink
	selector workflow.Selector
	wake     workflow.Channel // makes run look again

	batches workflow.Context // of the executions: a stop cancels it
	cancel  workflow.CancelFunc

	// returned are tasks that have run before and run again. They go first.
	returned  []task
	flying    []*task
	delayed   int // tasks that wait for a repetition
	sofar     outcomes
	lastError string // for people

	window window
	rate   rateControl
	report reporting
	learning

	notice  *protocol.StopNotice
	full    bool // the history is long enough
	overdue bool // the stop's grace and kill limits are over
}

// outcomes are the results of a dispatcher's batches.
type outcomes struct {
	Totals     job.Totals      `json:"totals"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
	// Error is what has ended the leg early.
	Error      *job.Error      `json:"error,omitempty"`
	Stragglers []job.Straggler `json:"stragglers,omitempty"`
	forcedEnds
	Speed   throttle.Speed    `json:"speed"`
	Workers []job.WorkerShare `json:"workers,omitempty"`
	Pool    pool.Workers      `json:"pool,omitempty"`   // what is known of these workers
	Outage  *job.Outage       `json:"outage,omitempty"` // that batches wait out
}

// jobLink is how a leg reaches its job. No method blocks.
type jobLink interface {
	// failed reports the error that ends the leg, while the leg still drains.
	failed(err *job.Error)
	// slowDown reports a handler's request to slow down.
	slowDown(r slowDownRequest)
	// counted reports how many items have failed.
	counted(c counts)
	// heard reports what has become known of the pool.
	heard(n poolNews)
	// batchEnded is called after every end of an execution.
	batchEnded()
	// handBack gives places to the job. The future fails if that has ended.
	handBack(places int) workflow.Future
}

// legEvents is the length of history at which a leg stops dispatching.
const legEvents = 4000

// newDispatcher makes a dispatcher that has places in the window, and continues from the outcomes so far.
func newDispatcher(ctx workflow.Context, in LegInput, s supply, r recorder, link jobLink) *dispatcher {
	d := &dispatcher{
		ctx: ctx, ref: in.Ref, spec: in.Spec, supply: s, recorder: r, job: link,
		selector: workflow.NewSelector(ctx), wake: workflow.NewBufferedChannel(ctx, 1),
		returned: in.Tasks, sofar: in.Sofar.outcomes,
		window: window{places: in.Window, last: in.Last},
		rate:   newRateControl(ctx, in),
		report: newReporting(in), learning: newLearning(in),
	}
	d.batches, d.cancel = workflow.WithCancel(ctx)
	return d
}

// run returns once every task has ended, or once nothing runs any more and nothing new may start.
func (d *dispatcher) run() {
	for {
		d.dispatch()
		d.handBack()
		if d.ended() {
			return
		}
		d.selector.Select(d.ctx)
	}
}

func (d *dispatcher) ended() bool {
	if d.overdue {
		return true
	}
	if len(d.flying) > 0 || d.window.underWay > 0 || d.delayed > 0 {
		return false
	}
	return d.halted() || d.full || len(d.returned) == 0 && d.supply.ended()
}

// halted reports that nothing new is dispatched any more.
func (d *dispatcher) halted() bool { return d.notice != nil || d.sofar.Error != nil }

// waiting is how many batches wait for a place.
func (d *dispatcher) waiting() int { return len(d.returned) + d.supply.waiting() }

func (d *dispatcher) dispatch() {
	before := len(d.flying)
	defer func() {
		for _, t := range d.flying[before:] {
			t.limited = d.waiting() > 0 && len(d.flying) >= d.window.places && d.sofar.Totals.Batches > 0
		}
	}()
	for d.waiting() > 0 && len(d.flying) < d.window.places && !d.halted() {
		if workflow.GetInfo(d.ctx).GetCurrentHistoryLength() >= legEvents {
			d.full = true
			return
		}
		if d.outOfReach() {
			return
		}
		pace, ok := d.pacing()
		if !ok {
			return
		}
		t, ok := d.next()
		if !ok {
			return
		}
		t.pace = pace
		d.execute(t)
	}
}

// next takes the first task that may run now. It returns false if there is none.
func (d *dispatcher) next() (task, bool) {
	if d.sofar.Outage != nil && len(d.flying) == 0 {
		// What failed may wait for the host of one input only: another one's batches are not held up by it.
		if t, ok := d.supply.next(); ok {
			return t, ok
		}
	}
	t, ok, blocked := d.nextReturned()
	if ok || blocked {
		return t, ok
	}
	return d.supply.next()
}

func (d *dispatcher) execute(t task) {
	t.started, t.excused = workflow.Now(d.ctx), false
	t.Runs++
	flying := &t
	d.flying = append(d.flying, flying)
	recovering := d.rate.limits.Slowed.Rate(t.started) > 0
	ctx := execute.BatchOptions(d.batches, d.spec, t.activityID(), t.summary())
	future := workflow.ExecuteActivity(ctx, acts.Process, activities.ProcessInput{
		Ref: d.ref, Batch: t.Batch, Calls: callLimits(d.spec), Grace: max(0, d.spec.Grace), Slice: t.slice(recovering),
		Take: t.items(), Verdict: t.verdict(), OnError: d.spec.OnError, Pace: t.pace,
	})
	d.selector.AddFuture(future, func(f workflow.Future) {
		d.receiveRestarts() // one may have come before the end that it excuses
		d.land(flying)
		var result activities.ProcessResult
		if err := f.Get(d.ctx, &result); err != nil {
			d.failed(*flying, err)
		} else {
			d.succeeded(*flying, result)
		}
		d.job.batchEnded()
	})
}

func callLimits(spec job.Spec) calls.CallLimits {
	return calls.CallLimits{
		Timeout: max(0, spec.CallTimeout), Attempts: spec.Attempts, ItemAttempts: spec.ItemAttempts, Backoff: spec.Backoff,
	}
}

func (d *dispatcher) land(t *task) {
	for i := range d.flying {
		if d.flying[i] == t {
			d.flying = append(d.flying[:i], d.flying[i+1:]...)
			return
		}
	}
}

// receiveRestarts excuses what was in flight when the process that held it was replaced.
func (d *dispatcher) receiveRestarts() {
	for workflow.GetSignalChannel(d.ctx, protocol.SignalRestarted).ReceiveAsync(nil) {
		for _, t := range d.flying {
			t.excused = true
		}
	}
}

// wakeUp makes run look again.
func (d *dispatcher) wakeUp() { d.wake.SendAsync(nil) }

// progress is what the queries and the report show.
func (d *dispatcher) progress() job.Progress {
	return job.Progress{
		Totals: d.sofar.Totals, Waiting: d.waiting() + d.delayed, InFlight: len(d.flying),
		FirstError: d.sofar.FirstError, LastFailure: d.lastError, Workers: d.sofar.Workers, Oldest: d.oldest(), Outage: d.sofar.Outage,
	}
}

// oldest describes the batch that has been in flight for longest; "" if none is.
func (d *dispatcher) oldest() string {
	if len(d.flying) == 0 {
		return ""
	}
	first := d.flying[0]
	for _, t := range d.flying {
		if t.started.Before(first.started) {
			first = t
		}
	}
	return fmt.Sprintf("%s, dispatched at %s", first.summary(), first.started.UTC().Format("15:04:05"))
}

// details describes a leg for people.
func (d *dispatcher) details() string {
	t := d.sofar.Totals
	s := fmt.Sprintf("%s items ok · %s failed · %s batches done · %d in flight · %d waiting",
		text.Thousands(t.OK), text.Thousands(t.Failed), text.Thousands(t.Batches), len(d.flying), d.waiting()+d.delayed)
	if oldest := d.oldest(); oldest != "" {
		s += "\n\nOldest in flight: " + oldest
	}
	if d.sofar.Outage != nil {
		s += "\n\nWaiting " + d.sofar.Outage.String()
	}
	if d.lastError != "" {
		s += "\n\nLast retry: " + d.lastError
	}
	return s
}

// takeLeft takes out the tasks that have not run, for a next run.
func (d *dispatcher) takeLeft() []task { return append(d.returned, drain(d.supply)...) }

// retryDelay doubles the first delay with every try, up to job.MaxBackoff.
func retryDelay(first time.Duration, tries int) time.Duration {
	delay := first
	for i := 1; i < tries && delay < job.MaxBackoff; i++ {
		delay *= 2
	}
	return min(delay, job.MaxBackoff)
}
