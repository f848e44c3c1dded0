package workflows

import (
	"fmt"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

// LegInput is one page of batches to run.
type LegInput struct {
	Ref    activities.Ref `json:"ref"`
	Spec   job.Spec       `json:"spec"`
	Number int            `json:"number"` // from 1; 0 is the leg that the job runs itself
	// Page holds the batches; once the leg has continued as new, Tasks does.
	Page     []byte    `json:"page,omitempty"`
	Tasks    []task    `json:"tasks,omitempty"`
	Base     int64     `json:"base"`               // batches planned before this page
	Previous []string  `json:"previous,omitempty"` // manifests for this leg's to name
	Window   int       `json:"window"`             // places in the window to begin with
	Next     string    `json:"next,omitempty"`     // see signalNext
	Sofar    LegResult `json:"so_far"`             // of the leg's earlier runs
	Version  int       `json:"version,omitempty"`  // see job.LogicVersion
	Limits   limits    `json:"limits,omitzero"`
	Wishes   int       `json:"wishes,omitempty"` // to slow down that the job has been told of
}

// LegResult is what a leg has done.
type LegResult struct {
	Manifests  []string        `json:"manifests"` // heads of the chain after this leg
	Totals     job.Totals      `json:"totals"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
	// Left is how many items the leg did not get to, because of a stop or of Error.
	Left       int64             `json:"left,omitempty"`
	Error      *job.Error        `json:"error,omitempty"`
	Stragglers []job.Straggler   `json:"stragglers,omitempty"`
	Window     int               `json:"window"` // places that it held at its end
	Speed      speed             `json:"speed"`
	Workers    []job.WorkerShare `json:"workers,omitempty"`
}

// task is a batch that waits or runs.
type task struct {
	job.Batch
	Number    int64 `json:"b"`           // of the batch, from 1, for people
	Tries     int   `json:"t,omitempty"` // failed executions
	Rests     int   `json:"r,omitempty"` // executions that ended early
	Runs      int   `json:"x,omitempty"` // executions, the one in flight included
	Portion   int64 `json:"p,omitempty"` // items at a time, of a handler that could not do more; 0: all
	Suspicion `json:"q,omitzero"`

	started time.Time // of the execution in flight
	excused bool      // whatever ends that execution is not its fault
	pace    job.Rate  // of that execution; 0: no limit
}

const (
	// legEvents is where a leg stops dispatching: what is in flight then still fits below 4,096
	// with a window of 64, and is far below Temporal's limit with one of 1,000.
	legEvents = 4000
	// firstSlice is how long a batch runs before it returns its rest; each of its rests may run
	// twice as long as the one before.
	firstSlice = time.Minute
	lastSlice  = time.Hour
	// killLimit is what a worker may take, after the grace period, to end a call by TERM and KILL.
	killLimit = 20 * time.Second
	// locateLimit is how long it may take to find out where stragglers run.
	locateLimit = 10 * time.Second
	// handings is how often at most a leg hands places to the next.
	handings = 4
)

// Leg runs one page of a job's batches, at most 1,000.
//
// A batch is an activity: 3 events, 270 bytes of input and 330 of result. The ends of batches share
// workflow tasks (see pace): 0.2 events a batch. With Commit (100 bytes a batch), at most 8 signals, start
// and end that is 3,200 events and 1.2 MB. Where each end has a workflow task of its own, and batches
// are repeated or rest, there are more: at 4,000 events the leg stops dispatching. What is in flight then
// adds at most 6 events each, 6,000 with the widest window: 10,000, a fifth of what a run may have. The leg
// commits, continues as new with the tasks that are left (100 bytes each), and any number of repetitions
// goes on there.
func Leg(ctx workflow.Context, in LegInput) (LegResult, error) {
	l, err := newLeg(ctx, in, signalControls(ctx))
	if err != nil {
		return LegResult{}, err
	}
	l.hand = func(places int) workflow.Future {
		return workflow.SignalExternalWorkflow(ctx, l.nextLeg, "", signalGrant, places)
	}
	tellJob := func(signal string, argument any) {
		if parent := workflow.GetInfo(ctx).ParentWorkflowExecution; parent != nil {
			workflow.SignalExternalWorkflow(ctx, parent.ID, "", signal, argument)
		}
	}
	l.onFail = func(err *job.Error) { tellJob(signalFail, *err) }
	l.onSlow = func(wish slowWish) { tellJob(signalSlow, wish) }
	l.onCounts = func(c counts) { tellJob(signalCounts, c) }
	l.onDone = func() { workflow.SetCurrentDetails(ctx, l.details()) }
	if err := workflow.SetQueryHandler(ctx, job.QueryProgress, l.progress); err != nil {
		return LegResult{}, fmt.Errorf("answering queries: %w", err)
	}
	if err := workflow.SetQueryHandler(ctx, job.QueryPending, func() ([]activities.CommitInput, error) {
		return []activities.CommitInput{l.pending()}, nil
	}); err != nil {
		return LegResult{}, fmt.Errorf("answering queries: %w", err)
	}
	l.run()
	result := l.commit()
	l.drainControls()
	if !l.full || result.Error != nil || l.notice != nil {
		return result, nil
	}
	again := in
	again.Page, again.Tasks, again.Sofar = nil, l.waiting, result
	again.Previous, again.Window, again.Next, again.Limits = result.Manifests, l.window, l.nextLeg, l.limits
	again.Wishes = l.wishes
	return LegResult{}, workflow.NewContinueAsNewError(ctx, Leg, again)
}

// leg is one run of a leg, or the leg that a job runs itself.
type leg struct {
	ctx     workflow.Context
	in      LegInput
	control controls

	batches   workflow.Context // of the executions: a stop cancels it
	cancel    workflow.CancelFunc
	selector  workflow.Selector
	waiting   []task
	flying    []*task
	delayed   int // tasks that wait for a repetition
	accepted  []activities.Entry
	result    LegResult
	lastError string

	more bool             // another page may come: see extend
	wake workflow.Channel // has run look again

	window   int
	indebted bool                             // places have been taken back
	nextLeg  string                           // whom to hand places to; "" while there is nobody
	hand     func(places int) workflow.Future // hands places on; the future fails if nobody took them
	handed   int                              // times
	share    int                              // least number of places worth handing
	handing  int                              // handings under way

	notice  *job.StopNotice
	full    bool // the history is long enough
	overdue bool // the stop's grace and kill limits are over
	onDone  func()
	pace    pace

	// What tells the job something at once, while the leg goes on or drains.
	onFail   func(*job.Error)
	onSlow   func(slowWish)
	onCounts func(counts)

	limits limits
	wakes  time.Time // when a pause that is waited for ends
	wishes int       // to slow down that the job has been told of
	// tellSlow is when it is told of the next at the earliest.
	tellSlow time.Time
	effort   speed // of the handler, without what paces it
	began    time.Time
	watch    watch
	told     int64 // failed items that the job has been told of
}

func newLeg(ctx workflow.Context, in LegInput, control controls) (*leg, error) {
	l := &leg{
		ctx: ctx, in: in, control: control, selector: workflow.NewSelector(ctx),
		window: in.Window, nextLeg: in.Next, waiting: in.Tasks, result: in.Sofar, onDone: func() {},
		wake: workflow.NewBufferedChannel(ctx, 1), began: workflow.Now(ctx),
		limits: in.Limits, wishes: in.Wishes, watch: in.Limits.Watch.watch(), told: in.Sofar.Totals.Failed,
	}
	l.batches, l.cancel = workflow.WithCancel(ctx)
	batches, err := activities.DecodePage(in.Page)
	if err != nil {
		return nil, fmt.Errorf("reading the page of leg %d: %w", in.Number, err)
	}
	l.enqueue(batches, in.Base)
	l.listen()
	return l, nil
}

// enqueue takes batches that come after so many others of the job.
func (l *leg) enqueue(batches []job.Batch, base int64) {
	for i, b := range batches {
		l.waiting = append(l.waiting, task{Batch: b, Number: base + int64(i) + 1})
	}
}

// extend gives the leg another page, and places in the window for it.
func (l *leg) extend(batches []job.Batch, base int64, places int) {
	l.enqueue(batches, base)
	l.window += places
	l.more = false
	l.wake.SendAsync(nil)
}

// run returns when every task has ended, or when nothing runs any more and nothing shall.
func (l *leg) run() {
	for {
		l.dispatch()
		l.handOn()
		if l.ended() {
			return
		}
		if !l.selector.HasPending() {
			l.pace.pause(l)
		}
		l.selector.Select(l.ctx)
	}
}

func (l *leg) ended() bool {
	if l.overdue {
		return true
	}
	if len(l.flying) > 0 || l.handing > 0 || l.delayed > 0 {
		return false
	}
	return l.halted() || l.full || len(l.waiting) == 0 && !l.more
}

// halted reports that nothing new shall be dispatched, for good.
func (l *leg) halted() bool { return l.notice != nil || l.result.Error != nil }

func (l *leg) dispatch() {
	for len(l.waiting) > 0 && len(l.flying) < l.window && !l.halted() {
		if workflow.GetInfo(l.ctx).GetCurrentHistoryLength() >= legEvents {
			l.full = true
			return
		}
		pace, ok := l.pacing()
		if !ok {
			return
		}
		t, ok := l.next()
		if !ok {
			return
		}
		t.pace = pace
		l.execute(t)
	}
}

func (l *leg) execute(t task) {
	t.started, t.excused = workflow.Now(l.ctx), false
	t.Runs++
	flying := &t
	l.flying = append(l.flying, flying)
	l.pace.sent++
	spec := l.in.Spec
	id := ""
	if l.in.Version >= 1 {
		id = t.activityID()
	}
	ctx := batchOptions(l.batches, spec, id, t.summary())
	future := workflow.ExecuteActivity(ctx, acts.Process, activities.ProcessInput{
		Ref: l.in.Ref, Batch: t.Batch, Calls: callLimits(spec), Grace: max(0, spec.Grace), Slice: l.slice(t),
		Take: t.items(), Verdict: t.verdict(), OnError: spec.OnError, Pace: t.pace,
	})
	l.selector.AddFuture(future, func(f workflow.Future) {
		l.receiveRestart() // it may have come before the end that it excuses
		l.land(flying)
		var result activities.ProcessResult
		if err := f.Get(l.ctx, &result); err != nil {
			l.failed(*flying, err)
		} else {
			l.succeeded(*flying, result)
		}
		l.onDone()
	})
}

// activityID names an execution, so that the server can be asked for it: no two of a job have the same.
func (t *task) activityID() string { return fmt.Sprintf("batch-%d.%d", t.Number, t.Runs) }

func (t *task) summary() string {
	s := fmt.Sprintf("batch %s · %s", job.Thousands(t.Number), t.Batch)
	if t.Rests > 0 {
		s += " · rest"
	}
	if t.suspected() {
		return s + " · " + t.suspense()
	}
	if t.Tries > 0 {
		s += fmt.Sprintf(" · attempt %d", t.Tries+1)
	}
	return s
}

// slice is how long the next execution of a task may run. One that is slowed down keeps its pace all
// along, so that it is a short one: the others' paces come back.
func (l *leg) slice(t task) time.Duration {
	slice := firstSlice
	if t.pace > 0 && l.limits.Slowed.rate(workflow.Now(l.ctx)) > 0 {
		return slice
	}
	for i := 0; i < t.Rests && slice < lastSlice; i++ {
		slice *= 2
	}
	return min(slice, lastSlice)
}

func callLimits(spec job.Spec) activities.CallLimits {
	return activities.CallLimits{
		Timeout: max(0, spec.CallTimeout), Attempts: spec.Attempts, ItemAttempts: spec.ItemAttempts, Backoff: spec.Backoff,
	}
}

func (l *leg) land(t *task) {
	for i := range l.flying {
		if l.flying[i] == t {
			l.flying = append(l.flying[:i], l.flying[i+1:]...)
			return
		}
	}
}
