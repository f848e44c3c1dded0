package dispatch

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/stagewindow"
	"github.com/stint-run/stint/workflows/internal/throttle"
)

// Dispatcher keeps a window of batches in flight, until its supply has ended or a stop comes. It counts the attempts of
// each batch, has failed ones tried again, and gives what is accepted to its recorder. It belongs to one run of a leg,
// and is used by its workflow only.
type Dispatcher struct {
	Config   // State and Sofar stay as the run began with them
	ctx      workflow.Context
	selector workflow.Selector
	wake     workflow.Channel // makes Run look again

	batches workflow.Context // of the executions: a stop cancels it
	cancel  workflow.CancelFunc

	// returned are tasks that have run before and run again. They go first.
	returned  []task
	flying    []*task
	silent    []silence        // executions that nothing was heard of at a stop
	delayed   []*task          // those that wait for a repetition
	sofar     wire.LegOutcomes // without its life
	life      life
	lastError string // for people

	window window
	rate   rateControl
	report reporting
	pause  pause
	learning

	notice  *wire.StopNotice
	full    bool // the history is long enough, or the leg is to end
	retired bool // the latter
	overdue bool // the stop's grace and kill limits are over
}

// MaxEvents is the length of history at which a dispatcher begins nothing more, unless its leg sets another one.
const MaxEvents = 4000

// MaxBytes is the size of history at which a dispatcher begins nothing more: Temporal ends a workflow with 50 MB.
const MaxBytes = 40 << 20

// New makes a dispatcher. Nothing is dispatched before Run, and it hears of no signal before Listen or ListenInside.
func New(ctx workflow.Context, c Config) *Dispatcher {
	c.MaxEvents = cmp.Or(c.MaxEvents, MaxEvents)
	d := &Dispatcher{
		Config: c, ctx: ctx, selector: workflow.NewSelector(ctx), wake: workflow.NewBufferedChannel(ctx, 1),
		returned: begin(c.State.Tasks), sofar: c.Sofar,
		window:   window{places: c.State.Window, last: c.State.Last},
		rate:     rateControl{limits: c.State.Limits, requests: c.State.SlowDowns, began: workflow.Now(ctx)},
		report:   reporting{reported: c.Sofar.Totals.Failed},
		learning: learning{known: c.State.Known, reports: c.State.Reports, speedAwaited: c.State.SpeedAwaited},
	}
	d.sofar.Life, d.life = nil, newLife(c.Sofar.Outcomes, c.State.Grain)
	d.report.set(c.State.Limits.Report)
	d.batches, d.cancel = workflow.WithCancel(ctx)
	return d
}

// Run returns once every task has ended, or once nothing runs any more and nothing new may start. It blocks; ctx is
// that of the coroutine that calls it.
func (d *Dispatcher) Run(ctx workflow.Context) {
	d.ctx = ctx
	d.receiveRetirement()
	for {
		d.dispatch()
		d.handBack()
		if d.ended() {
			return
		}
		d.selector.Select(d.ctx)
	}
}

func (d *Dispatcher) ended() bool {
	if d.overdue {
		return true
	}
	if len(d.flying) > 0 || d.window.underWay > 0 || len(d.delayed) > 0 {
		return false
	}
	return d.Halted() || d.full || len(d.returned) == 0 && d.Supply.Ended()
}

// Full reports that nothing new is dispatched any more because the history is long enough: what is left is for
// the leg's next run (see Handover).
func (d *Dispatcher) Full() bool { return d.full }

// Retired reports that the job has the leg end, as if the history were long enough: Run returns once what is in flight
// has ended.
func (d *Dispatcher) Retired() bool { return d.retired }

// Halted reports that nothing new is dispatched any more because of a stop or an error.
func (d *Dispatcher) Halted() bool { return d.notice != nil || d.sofar.Error != nil }

// waiting returns how many batches wait for a place.
func (d *Dispatcher) waiting() int { return len(d.returned) + d.Supply.Waiting() }

func (d *Dispatcher) dispatch() {
	before := len(d.flying)
	defer func() {
		for _, t := range d.flying[before:] {
			t.limited = d.waiting() > 0 && len(d.flying) >= d.window.places && d.sofar.Totals.Batches > 0
		}
	}()
	for d.waiting() > 0 && len(d.flying) < d.window.places && !d.Halted() && !d.full && !d.Paused() {
		if info := workflow.GetInfo(d.ctx); info.GetCurrentHistoryLength() >= d.MaxEvents || info.GetCurrentHistorySize() >= MaxBytes {
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
		share, busy, ok := d.share()
		if !ok {
			return
		}
		t, ok := d.next(busy)
		if !ok {
			return
		}
		t.pace = pace
		d.execute(t, share)
	}
}

// next takes the first task that may run now; if turnless is set, the first of a stage that makes no requests. It returns
// false if there is none.
func (d *Dispatcher) next(turnless bool) (task, bool) {
	d.look()
	if turnless {
		d.Gate.Only(d.rate.turnless)
	}
	if d.sofar.Outage != nil && len(d.flying) == 0 {
		// What failed may wait for the host of one input only: another one's batches are not held up by it.
		if t, ok := d.Supply.Next(); ok {
			return task{Task: t}, ok
		}
	}
	t, ok, blocked := d.nextReturned()
	if ok || blocked {
		return t, ok
	}
	new, ok := d.Supply.Next()
	return task{Task: new}, ok
}

func (d *Dispatcher) execute(t task, share *wire.Share) {
	if err := t.intact(); err != nil {
		d.again(t)
		d.fail(err)
		return
	}
	t.started, t.excused, t.withdrawn = workflow.Now(d.ctx), false, false
	if share != nil && t.Stage != "" {
		share.Each = d.each(t.Stage)
	}
	t.turn, t.begun = d.takeTurn(share, t.Stage), false
	t.share = shareOf(share)
	t.Runs++
	flying := &t
	d.flying = append(d.flying, flying)
	recovering := throttle.Of(&d.rate.limits.Slowed).Rate(t.started) > 0
	spec := d.Spec
	spec.Priority = cmp.Or(d.rate.limits.Priority, spec.Priority)
	ctx := execute.BatchOptions(d.batches, spec, t.activityID(), t.summary())
	future := d.Process(ctx, wire.ProcessInput{
		Batch: t.Batch, Trials: t.Trials, Calls: callLimits(d.Spec), Grace: d.Spec.Grace, Slice: t.slice(recovering),
		Take: t.items(), Alone: t.suspicion().Alone(), Verdict: t.verdict(), OnError: d.Spec.OnError, Pace: t.pace, Share: share,
		Hopeless: d.hopeless(), Flatten: d.Spec.Flatten, KeepDrops: d.Spec.Dropped != "",
	})
	d.selector.AddFuture(future, func(f workflow.Future) {
		d.receiveRestarts() // one may have come before the end that it excuses
		d.flying = slices.DeleteFunc(d.flying, func(t *task) bool { return t == flying })
		var result wire.ProcessResult
		if err := f.Get(d.ctx, &result); err != nil {
			d.failed(*flying, err)
			d.lived(flying, nil)
		} else if err := flying.answers(&result); err != nil {
			d.again(*flying)
			d.fail(err)
		} else {
			d.succeeded(*flying, result)
			d.lived(flying, &result)
		}
		d.Link.BatchEnded()
	})
}

func callLimits(spec job.Spec) wire.CallLimits {
	l := wire.CallLimits{Attempts: spec.Attempts, ItemAttempts: spec.ItemAttempts, Backoff: spec.Backoff, Retry: spec.Retry, Final: spec.Final()}
	if spec.CallTimeout != job.NoLimit {
		l.Timeout = spec.CallTimeout
	}
	return l
}

// receiveRestarts excuses what was in flight when the process that held it was replaced.
func (d *Dispatcher) receiveRestarts() {
	for workflow.GetSignalChannel(d.ctx, wire.SignalRestarted).ReceiveAsync(nil) {
		for _, t := range d.flying {
			t.excused = true
		}
	}
}

// Wake makes Run look again: at the supply, which may have new batches or have ended, and at the window. It does not
// block, and any coroutine of the workflow may call it.
func (d *Dispatcher) Wake() { d.wake.SendAsync(nil) }

// Handover takes out what the dispatcher of the leg's next run begins with, the batches of the supply included. It is
// for a dispatcher whose Run has returned.
func (d *Dispatcher) Handover() wire.LegState {
	if d.Gate != nil {
		d.Gate.Open()
	}
	return wire.LegState{
		Number: d.State.Number, Tasks: append(end(d.returned), drain(d.Supply)...), Window: d.window.places, Last: d.window.last,
		Limits: d.rate.limits, Grain: d.State.Grain, SlowDowns: d.rate.requests,
		Known: d.known, Reports: d.reports, SpeedAwaited: d.speedAwaited,
	}
}

// begin and end are where tasks come from another run, and where they go to one.
func begin(waiting []wire.Task) (tasks []task) {
	for _, t := range waiting {
		tasks = append(tasks, task{Task: t})
	}
	return tasks
}

func end(tasks []task) (waiting []wire.Task) {
	for _, t := range tasks {
		waiting = append(waiting, t.Task)
	}
	return waiting
}

// Free returns how many more batches may be in flight now.
func (d *Dispatcher) Free() int { return max(0, d.window.places-len(d.flying)) }

// Fail ends the leg with an error: the first one counts. What is in flight gets the job's grace.
func (d *Dispatcher) Fail(err *job.Error) {
	d.fail(err)
	d.Wake()
}

// Returned returns how many items are in batches that have been dispatched, and wait to be dispatched again.
func (d *Dispatcher) Returned() int64 {
	var n int64
	for _, t := range d.returned {
		n += t.Count
	}
	return n
}

// Lose takes back what has been accepted since New, because it could not be recorded: err is the leg's error
// then, unless it has one.
func (d *Dispatcher) Lose(err *job.Error) {
	used, lost := d.sofar.Totals.Usage, d.sofar.Totals.LostUsage // which is spent all the same
	d.sofar.Totals, d.sofar.Stages, d.sofar.Slowest = d.Config.Sofar.Totals, d.Config.Sofar.Stages, d.Config.Sofar.Slowest
	d.life = newLife(d.Config.Sofar.Outcomes, d.State.Grain)
	d.sofar.Totals.Usage, d.sofar.Totals.LostUsage = used, lost
	if d.sofar.Error == nil {
		d.sofar.Error = err
	}
}

// retryDelay doubles the first delay with every try, up to limits.MaxBackoff.
func retryDelay(first time.Duration, tries int) time.Duration {
	return backoff.Delay(first, tries, limits.MaxBackoff)
}

// Config is what a leg gives its dispatcher. What makes one kind of leg differ from another is in Supply, Recorder
// and Process.
type Config struct {
	Spec     job.Spec
	State    wire.LegState
	Sofar    wire.LegOutcomes // of the leg's earlier runs
	Supply   Supply
	Recorder Recorder
	// Process starts one execution of a batch, and returns the future of its activities.ProcessResult. ctx has the
	// options of the activity, which Process may change, and is cancelled by a stop; in is complete but for what the
	// kind of leg adds: where the items come from, and where their outcomes go. It does not block.
	Process func(ctx workflow.Context, in wire.ProcessInput) workflow.Future
	Link    Link
	// Recover returns what an execution has done that is lost, has failed or still runs when a stop's time is over, as
	// if it had returned that: a result with a rest. The hint is its last heartbeat, or the detail of its error. It
	// returns false if the hint does not say. Nil: an execution has done all or nothing.
	Recover func(hint wire.Hint) (wire.ProcessResult, bool)
	// Doubt takes in that a stop has now left an execution behind of which nothing is known. Nil if Recover is.
	Doubt func(began, now time.Time)
	// CameBack takes in where an execution stood that the server had given up and whose worker has it alive. runs: the
	// next one has begun. Nil if Recover is.
	CameBack func(at job.LoopSlot, runs bool)
	// Tally are the outcomes that the job's rules count; nil: all of the leg.
	Tally func() wire.Counts
	// Gate decides which tasks of a pipeline may start, and has Supply ask it. Nil: all may.
	Gate *stagewindow.Gate
	// Queued is how many tasks Supply has for each stage of a pipeline. Nil: there are no stages.
	Queued func() map[string]int
	// MaxEvents is the length of history at which the dispatcher begins nothing more; 0: [MaxEvents].
	MaxEvents int
}

// Supply is where a dispatcher takes new batches from. It belongs to one dispatcher and is used by its
// workflow only. Batches that come back (repetitions, rests) stay with the dispatcher. If it gets new
// batches, or ends, while Run waits, Wake has to be called.
type Supply interface {
	// Next takes out the next batch, with a Number that no other batch of the job has. It returns false if there is
	// none now that may start.
	Next() (wire.Task, bool)
	// Waiting returns how many batches wait now.
	Waiting() int
	// Ended reports that Next returns no more batches, now or later.
	Ended() bool
}

// drain takes out all batches, as tasks.
func drain(s Supply) []wire.Task {
	var left []wire.Task
	for {
		t, ok := s.Next()
		if !ok {
			return left
		}
		left = append(left, t)
	}
}

// Recorder takes the results that a dispatcher accepts. It is used by one workflow only.
type Recorder interface {
	// Accept takes what one execution of a task has done: its Entry has at least one item. It does not block.
	Accept(t wire.Task, r wire.ProcessResult)
}

// Link is how a leg reaches its job. No method blocks.
type Link interface {
	// Failed reports the error that ends the leg, while the leg still drains.
	Failed(err *job.Error)
	// SlowDown reports a handler's request to slow down.
	SlowDown(r wire.SlowDownRequest)
	// Counted reports how many items have failed.
	Counted(c wire.Counts)
	// ReportPool reports what has become known of the pool.
	ReportPool(n wire.PoolReport)
	// BatchEnded is called after every end of an execution.
	BatchEnded()
	// HandBack gives places to the job. The future fails if that has ended.
	HandBack(places int) workflow.Future
}
