package workflows

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
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
}

// LegResult is what a leg has done.
type LegResult struct {
	Manifests  []string        `json:"manifests"` // heads of the chain after this leg
	Totals     job.Totals      `json:"totals"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
	// Left is how many items the leg did not get to, because of a stop or of Error.
	Left       int64           `json:"left,omitempty"`
	Error      *job.Error      `json:"error,omitempty"`
	Stragglers []job.Straggler `json:"stragglers,omitempty"`
	Window     int             `json:"window"` // places that it held at its end
	Speed      speed           `json:"speed"`
}

// task is a batch that waits or runs.
type task struct {
	job.Batch
	Number    int64 `json:"b"`           // of the batch, from 1, for people
	Tries     int   `json:"t,omitempty"` // failed executions
	Rests     int   `json:"r,omitempty"` // executions that ended early
	Suspicion `json:"q,omitzero"`

	started time.Time // of the execution in flight
	excused bool      // whatever ends that execution is not its fault
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
	// handings is how often at most a leg hands places to the next.
	handings = 4
)

// controls are the ways in which a leg is told something while it runs.
type controls struct {
	halt, grant, next, restarted workflow.ReceiveChannel
}

func signalControls(ctx workflow.Context) controls {
	return controls{
		halt:      workflow.GetSignalChannel(ctx, signalHalt),
		grant:     workflow.GetSignalChannel(ctx, signalGrant),
		next:      workflow.GetSignalChannel(ctx, signalNext),
		restarted: workflow.GetSignalChannel(ctx, job.SignalRestarted),
	}
}

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
	l.onFail = func(err *job.Error) {
		if parent := workflow.GetInfo(ctx).ParentWorkflowExecution; parent != nil {
			workflow.SignalExternalWorkflow(ctx, parent.ID, "", signalFail, *err)
		}
	}
	l.onDone = func() { workflow.SetCurrentDetails(ctx, l.details()) }
	if err := workflow.SetQueryHandler(ctx, job.QueryProgress, l.progress); err != nil {
		return LegResult{}, fmt.Errorf("answering queries: %w", err)
	}
	l.run()
	result := l.commit()
	if !l.full || result.Error != nil || l.notice != nil {
		return result, nil
	}
	l.drainControls()
	again := in
	again.Page, again.Tasks, again.Sofar = nil, l.waiting, result
	again.Previous, again.Window, again.Next = result.Manifests, l.window, l.nextLeg
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

	window  int
	nextLeg string                           // whom to hand places to; "" while there is nobody
	hand    func(places int) workflow.Future // hands places on; the future fails if nobody took them
	handed  int                              // times
	share   int                              // least number of places worth handing
	handing int                              // handings under way

	notice  *job.StopNotice
	full    bool // the history is long enough
	overdue bool // the stop's grace and kill limits are over
	onDone  func()
	onFail  func(*job.Error) // tells the job at once, while the leg still drains
	pace    pace
}

func newLeg(ctx workflow.Context, in LegInput, control controls) (*leg, error) {
	l := &leg{
		ctx: ctx, in: in, control: control, selector: workflow.NewSelector(ctx),
		window: in.Window, nextLeg: in.Next, waiting: in.Tasks, result: in.Sofar, onDone: func() {},
		wake: workflow.NewBufferedChannel(ctx, 1),
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

func (l *leg) listen() {
	l.selector.AddReceive(l.control.halt, func(c workflow.ReceiveChannel, _ bool) {
		var notice job.StopNotice
		if c.ReceiveAsync(&notice) {
			l.stop(notice)
		}
	})
	l.selector.AddReceive(l.control.grant, func(c workflow.ReceiveChannel, _ bool) { l.receiveGrants() })
	l.selector.AddReceive(l.control.next, func(c workflow.ReceiveChannel, _ bool) { c.ReceiveAsync(&l.nextLeg) })
	l.selector.AddReceive(l.control.restarted, func(c workflow.ReceiveChannel, _ bool) { l.receiveRestart() })
	l.selector.AddReceive(l.wake, func(c workflow.ReceiveChannel, _ bool) { c.ReceiveAsync(nil) })
}

func (l *leg) receiveGrants() {
	var places int
	for l.control.grant.ReceiveAsync(&places) {
		l.window += places
	}
}

// receiveRestart excuses whatever was in flight when the process that held it was replaced.
func (l *leg) receiveRestart() {
	for l.control.restarted.ReceiveAsync(nil) {
		for _, t := range l.flying {
			t.excused = true
		}
	}
}

// drainControls takes in what has arrived, so that nothing is lost over continue-as-new.
func (l *leg) drainControls() {
	l.receiveGrants()
	l.receiveRestart()
	for l.control.next.ReceiveAsync(&l.nextLeg) {
	}
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
		t, ok := l.next()
		if !ok {
			return
		}
		l.execute(t)
	}
}

func (l *leg) execute(t task) {
	t.started, t.excused = workflow.Now(l.ctx), false
	flying := &t
	l.flying = append(l.flying, flying)
	l.pace.sent++
	spec := l.in.Spec
	ctx := batchOptions(l.batches, spec, t.summary())
	future := workflow.ExecuteActivity(ctx, acts.Process, activities.ProcessInput{
		Ref: l.in.Ref, Batch: t.Batch, Calls: callLimits(spec), Grace: max(0, spec.Grace), Slice: t.slice(),
		Take: t.take(), Verdict: t.verdict(),
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

func (t *task) slice() time.Duration {
	slice := firstSlice
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

func (l *leg) succeeded(t task, r activities.ProcessResult) {
	l.pace.landed(r.Started, r.Totals.Busy)
	if r.Entry.Count > 0 {
		l.accepted = append(l.accepted, r.Entry)
		l.result.Totals.Add(r.Totals)
		l.result.Speed.add(r.Entry.Count, r.Totals.Busy)
		l.result.FirstError = l.result.FirstError.First(r.FirstError)
	}
	if r.Rest != nil {
		t.Batch = *r.Rest
		if t.suspected() {
			t.survived(r.Entry.Count, t.Count)
		}
		if r.Entry.Count > 0 {
			t.Tries = 0 // it got on
		}
		t.Rests++
		l.again(t)
	}
}

// again puts a task first in the queue: what is old goes before what is new.
func (l *leg) again(t task) { l.waiting = append([]task{t}, l.waiting...) }

// failed decides what an execution's error means. While stopping, whatever it is, the range is a rest.
func (l *leg) failed(t task, err error) {
	timedOut := ranOut(err)
	if timedOut && !t.excused {
		l.result.Totals.Expiries++
	}
	switch {
	case l.halted(), isType(err, job.ErrorOrphaned), timedOut && t.excused:
		l.again(t)
		return
	case isPermanent(err):
		l.again(t)
		l.fail(jobError(err))
		return
	}
	t.Tries++
	cause := jobError(err)
	if isTimeout(err) && (t.suspected() || t.Tries >= l.in.Spec.Attempts) && l.narrows() {
		l.lastError = l.blame(t, cause)
		l.lost(t, err)
		return
	}
	if isTimeout(err) {
		t.Deaths++
	}
	l.lastError = l.blame(t, cause)
	if t.Tries >= l.in.Spec.Attempts {
		l.again(t)
		l.fail(exhausted(t, t.Tries, cause.Message))
		return
	}
	l.result.Totals.Retries++
	l.delayed++
	timer := workflow.NewTimer(l.batches, retryDelay(l.in.Spec.Backoff, t.Tries))
	l.selector.AddFuture(timer, func(workflow.Future) { // ended by a stop, it comes at once
		l.delayed--
		l.again(t)
	})
}

// blame tells people why a batch is tried again.
func (l *leg) blame(t task, cause *job.Error) string {
	return fmt.Sprintf("batch %s (%s): %s", job.Thousands(t.Number), t.Batch, cause.Message)
}

func isTimeout(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout)
}

func isPermanent(err error) bool {
	for _, kind := range job.PermanentErrors() {
		if isType(err, kind) {
			return true
		}
	}
	return false
}

func retryDelay(first time.Duration, tries int) time.Duration {
	d := first
	for i := 1; i < tries && d < job.MaxBackoff; i++ {
		d *= 2
	}
	return min(d, job.MaxBackoff)
}

// fail ends the leg with an error: the first one counts. What is in flight gets the job's grace.
func (l *leg) fail(err *job.Error) {
	if l.result.Error != nil {
		return
	}
	l.result.Error = err
	l.onFail(err)
	l.stop(job.StopNotice{Deadline: workflow.Now(l.ctx).Add(max(0, l.in.Spec.Grace)), Reason: err.Message})
}

// stop tells everything in flight to end and waits no longer than the notice and the kill limit allow.
func (l *leg) stop(notice job.StopNotice) {
	if l.notice != nil {
		return
	}
	l.notice = &notice
	// Process finds the notice there: a cancellation carries nothing.
	if err := workflow.UpsertMemo(l.ctx, map[string]any{job.MemoStop: notice}); err != nil {
		workflow.GetLogger(l.ctx).Error("writing the stop's deadline", "error", err)
	}
	l.cancel()
	wait := max(0, notice.Deadline.Sub(workflow.Now(l.ctx))) + killLimit
	l.selector.AddFuture(workflow.NewTimer(l.ctx, wait), func(workflow.Future) {
		l.overdue = true
		for _, t := range l.flying {
			l.result.Stragglers = append(l.result.Stragglers, job.Straggler{Batch: t.summary(), Leg: l.in.Number, Since: t.started})
			l.waiting = append(l.waiting, *t)
		}
		l.flying = nil
	})
}

// handOn gives places that this leg has no more batches for to the next leg, in at most handings
// portions: what is free when the batches run out, and then a quarter of what is in flight at a
// time. What it holds at its end goes on with its result.
func (l *leg) handOn() {
	free := l.window - len(l.flying)
	if l.nextLeg == "" || len(l.waiting) > 0 || l.delayed > 0 || l.halted() || len(l.flying) == 0 || l.handed == handings {
		return
	}
	if l.share == 0 {
		l.share = max(1, (len(l.flying)+handings-2)/(handings-1))
	}
	if free < 1 || l.handed > 0 && free < l.share {
		return
	}
	to := l.nextLeg
	l.window -= free
	l.handed++
	l.handing++
	l.selector.AddFuture(l.hand(free), func(f workflow.Future) {
		l.handing--
		if f.Get(l.ctx, nil) == nil {
			return
		}
		// The next leg has ended: they wait for the one after it.
		l.window += free
		l.handed--
		if l.nextLeg == to {
			l.nextLeg = ""
		}
	})
}

// commit makes what has been accepted count. It goes on after a stop and survives a cancellation.
func (l *leg) commit() LegResult {
	l.account()
	l.receiveGrants() // what has arrived until the very end
	l.result.Window = l.window
	return l.result
}

func (l *leg) account() {
	l.result.Left = 0
	for _, t := range l.waiting {
		l.result.Left += t.Count
	}
	if len(l.accepted) == 0 {
		l.result.Manifests = l.in.Previous
		return
	}
	ctx, _ := workflow.NewDisconnectedContext(l.ctx)
	ctx = ioOptions(ctx, l.in.Spec, fmt.Sprintf("commit %d parts", len(l.accepted)))
	var committed activities.CommitResult
	err := executeIO(ctx, acts.Commit, activities.CommitInput{
		Ref: l.in.Ref, Leg: l.in.Number, Previous: l.in.Previous, Entries: l.accepted,
	}, &committed)
	if err != nil {
		if l.result.Error == nil {
			l.result.Error = jobError(err)
		}
		l.result.Manifests, l.result.Totals = l.in.Previous, l.in.Sofar.Totals
		for _, e := range l.accepted {
			l.result.Left += e.Count
		}
		return
	}
	l.result.Manifests = []string{committed.Manifest}
}

func (l *leg) progress() (job.Progress, error) {
	return job.Progress{
		Totals: l.result.Totals, Waiting: len(l.waiting) + l.delayed, InFlight: len(l.flying),
		FirstError: l.result.FirstError, LastFailure: l.lastError,
	}, nil
}
