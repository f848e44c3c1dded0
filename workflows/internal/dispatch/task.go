package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/suspicion"
)

// task is a batch that waits or runs.
type task struct {
	wire.Task
	expired *expired  // the latest of its executions that has expired; nil: none, or it does not matter any more
	started time.Time // of the execution in flight
	limited bool      // by the window: when it was dispatched, for one that had ended, others waited for a place
	excused bool      // however that execution ends, it is not a failure of the batch
	// withdrawn: a pause has taken that execution back. What it has not done by its end is run again, without a failure.
	withdrawn bool
	pace      job.Rate   // of that execution; 0: no limit
	share     wire.Share // of that execution; zero: nothing limits it
	turn      bool       // that share has a turn that no other one has
	begun     bool       // it has begun its last request
}

func (t *task) suspicion() *suspicion.Suspicion { return suspicion.Of(&t.Suspicion) }

const (
	// FirstSlice is how long a batch runs before it returns its rest; each rest may run twice as long
	// as the one before, up to lastSlice.
	FirstSlice = time.Minute
	lastSlice  = time.Hour
)

// activityID names an execution, so that the server can be asked for it. It is unique in its job.
func (t *task) activityID() string {
	if t.From != nil { // there may be several with the number, but one for an item and a step
		return fmt.Sprintf("batch-%d.%d.%d.%d", t.Number, t.From.Step, t.First, t.Runs)
	}
	return fmt.Sprintf("batch-%d.%d", t.Number, t.Runs)
}

func (t *task) summary() string {
	s := fmt.Sprintf("batch %s · %s", text.Thousands(t.Number), t.Batch)
	if t.Stage != "" {
		s += " · " + t.Stage
	}
	if t.Rests > 0 {
		s += " · rest"
	}
	if t.suspicion().Suspected() {
		return s + " · " + t.suspicion().Describe()
	}
	if n := t.failures(); n > 0 {
		s += fmt.Sprintf(" · attempt %d", n+1)
	}
	return s
}

// failures returns how many executions have failed, with an error or because their worker has died.
func (t *task) failures() int { return t.Tries + t.Deaths }

// losses returns how many executions have ended with their worker or its process.
func (t *task) losses() int { return t.Deaths + t.Orphaned }

// slice returns how long the next execution may run. A paced one keeps its pace to its end, so while the rate
// recovers from a slow-down slices stay short.
func (t *task) slice(recovering bool) time.Duration {
	slice := FirstSlice
	if t.pace > 0 && recovering {
		return slice
	}
	for i := 0; i < t.Rests && slice < lastSlice; i++ {
		slice *= 2
	}
	return min(slice, lastSlice)
}

// items returns how many items the next execution does; 0: all.
func (t *task) items() int64 {
	take := t.suspicion().Take()
	if t.Portion > 0 && (take == 0 || t.Portion < take) {
		return t.Portion
	}
	return take
}

// resize sets Portion after an execution that has done so many items. If the handler asked to slow down
// before it had done one, the next execution gets half of the items: a call that is too large would
// otherwise return whole, again and again.
func (t *task) resize(done int64, slowDown time.Duration) {
	switch {
	case done > 0 && 2*t.Portion < t.Count:
		t.Portion *= 2
	case done > 0:
		t.Portion = 0
	case slowDown > 0:
		t.Portion = max(1, cmp.Or(t.items(), t.Count)/2)
	}
}

// verdict returns what the next execution records without trying; nil: it tries.
func (t *task) verdict() *wire.Verdict {
	if !t.Condemned {
		return nil
	}
	return &wire.Verdict{Kind: t.Kind, Attempts: t.losses(), Error: job.Error{
		Type: "WorkerDied", Message: fmt.Sprintf("every worker that had it in hand was lost, %d in all; the last time: %s", t.losses(), t.Cause),
	}}
}

// blame says, for people, why a batch is retried.
func (t *task) blame(cause *job.Error) string {
	return fmt.Sprintf("batch %s (%s): %s", text.Thousands(t.Number), t.Batch, cause.Message)
}

// A batch whose fields do not match its check was damaged on its way here: by a page, by a hand-over, or in memory.
// Nothing of it is executed or recorded. It is an error of the job, which can be resumed: Plan then cuts the batch
// anew.

var errNotItsItems = errors.New("the execution reports other items")

// intact returns an error unless the batch is as it was when it was sealed.
func (t *task) intact() *job.Error {
	if err := t.Verify(); err != nil {
		return &job.Error{Type: job.ErrorDamaged, Message: fmt.Sprintf("batch %d was not executed: %v; resume the job to have it cut anew", t.Number, err)}
	}
	return nil
}

// answers returns an error unless what an execution returns are the task's own items: first what is done, then the
// rest.
func (t *task) answers(r *wire.ProcessResult) *job.Error {
	err := t.tiledBy(r)
	if err == nil {
		return nil
	}
	return &job.Error{Type: job.ErrorDamaged, Message: fmt.Sprintf("what batch %d came to was not recorded: %v; resume the job to have it run anew", t.Number, err)}
}

func (t *task) tiledBy(r *wire.ProcessResult) error {
	next := t.First
	if r.Entry.Count > 0 {
		if err := r.Entry.Verify(); err != nil {
			return fmt.Errorf("done are %w", err)
		}
		if r.Entry.First != next {
			return fmt.Errorf("done are %s of %s: %w", r.Entry.Batch, t.Batch, errNotItsItems)
		}
		next = r.Entry.End()
	}
	if r.Rest != nil {
		if err := r.Rest.Verify(); err != nil {
			return fmt.Errorf("left are %w", err)
		}
		if r.Rest.First != next || r.Rest.Source != t.Source || r.Rest.Offset+r.Rest.Length != t.Offset+t.Length {
			return fmt.Errorf("left are %s of %s: %w", r.Rest, t.Batch, errNotItsItems)
		}
		next = r.Rest.End()
	}
	if next != t.End() {
		return fmt.Errorf("neither done nor left are the items from %d to before %d of %s: %w", next, t.End(), t.Batch, errNotItsItems)
	}
	return nil
}

// MaxCause bounds what a suspected task carries of its last loss, in bytes as JSON: a leg that continues as new has
// hundreds.
const MaxCause = 180

// OrphanTries is how many processes may end with the same items in hand before these are suspected: people
// kill processes, too.
const OrphanTries = 3

// orphaned decides what follows the end of the process that had the task in hand, which another one has
// replaced. It is no failed attempt, but an item that kills its process must not do so for ever.
func (d *Dispatcher) orphaned(t task, err error) {
	t.Orphaned++
	t.expired = nil // whoever comes back says nothing of what was found out since
	switch {
	case t.suspicion().Suspected():
		t.suspicion().ProcessEnded()
	case t.Orphaned >= OrphanTries:
		d.suspect(&t, err)
	default:
		d.again(t)
		return
	}
	d.narrowed(t, err)
}

// died decides what follows the death of the worker that had the task in hand. Only deaths count here: an error that
// passes says nothing of the items, and neither does a death say anything of what may still be retried.
func (d *Dispatcher) died(t task, err error) {
	t.Deaths++
	switch {
	case t.suspicion().Suspected():
		t.suspicion().Died()
	case t.Deaths >= d.Spec.Attempts:
		d.suspect(&t, err)
	default:
		d.retryLater(t)
		return
	}
	if limit := max(d.Spec.Attempts, suspicion.VerdictTries); t.Unwritten >= limit {
		// Not even the verdict can be recorded: it is not the item.
		d.again(t)
		d.fail(exhausted(t, t.losses(), execute.JobError(err).Message))
		return
	}
	d.narrowed(t, err)
}

// suspect begins to look for the item that its workers die of.
func (d *Dispatcher) suspect(t *task, err error) {
	d.sofar.Totals.Isolations++
	t.suspicion().Begin(t.Batch, lastHint(err))
}

// narrowed runs a suspected task again at once. Its errors are forgotten, because it gets on: it has fewer suspects, or
// is nearer to a verdict.
func (d *Dispatcher) narrowed(t task, err error) {
	t.Tries = 0
	if t.Unwritten == 0 { // no worker has died of recording a verdict
		t.Kind, t.Cause = job.KindCrash, text.Fit(execute.JobError(err).Message, MaxCause)
		if execute.IsTimeout(err) && !execute.RanOut(err) {
			t.Kind = job.KindExpired
		}
	}
	d.sofar.Totals.Retries++
	d.again(t)
}

// lastHint returns where an execution that has failed with err was: what the last heartbeat of a lost worker said, or
// the error's detail, which those of orphans have, and of slots of loops. Nil: that is not known.
func lastHint(err error) *wire.Hint {
	var hint wire.Hint
	var timeout *temporal.TimeoutError
	var failed *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &timeout) && timeout.HasLastHeartbeatDetails() && timeout.LastHeartbeatDetails(&hint) == nil:
		return &hint
	case errors.As(err, &failed) && failed.HasDetails() && failed.Details(&hint) == nil:
		return &hint
	case errors.As(err, &cancelled) && cancelled.HasDetails() && cancelled.Details(&hint) == nil:
		return &hint
	}
	return nil
}

// A batch whose workers keep dying probably holds an item that kills them. The leg halves the batch until
// that item is alone (package suspicion has the arithmetic; activities.ProcessInput.Take has only the first
// items done).
//
// A worker that dies takes other batches with it, and two bad ones at a time could make a third, good one
// look bad. So a leg has one suspected batch in flight at a time, and the last item that is suspected runs
// alone, with nothing else of the leg in flight.

// nextReturned takes out the first returned task that may run beside what is in flight. blocked reports
// that nothing else may start either.
func (d *Dispatcher) nextReturned() (t task, ok, blocked bool) {
	suspect, single := false, false // in flight
	for _, t := range d.flying {
		suspect = suspect || t.suspicion().Suspected()
		single = single || t.suspicion().Alone()
	}
	if single {
		return task{}, false, true
	}
	now := workflow.Now(d.ctx)
	var soonest time.Time
	for i, t := range d.returned {
		switch {
		case now.Before(t.After):
			if soonest.IsZero() || t.After.Before(soonest) {
				soonest = t.After
			}
			continue
		case d.held(&t), t.suspicion().Suspected() && suspect:
			continue
		case t.suspicion().Alone() && len(d.flying) > 0:
			return task{}, false, true // until it is alone
		}
		d.returned = append(d.returned[:i:i], d.returned[i+1:]...)
		return t, true, false
	}
	if !soonest.IsZero() {
		d.wakeAt(soonest)
	}
	return task{}, false, false
}

// maxReturns is how many executions of a task may expire in a row, without an item that is done, although their workers
// come back, or while they wait for a place: an item may freeze its worker each time, or end it before that is heard
// of. Each further one is a death.
const maxReturns = 10

// expired is the latest execution of a task that has expired, and what was suspected before. If its worker comes back
// that is restored.
type expired struct {
	activity string
	before   wire.Suspicion
}

// receiveReturns takes back the deaths of executions whose workers have them alive: the server had given them up
// because it was away itself, or the connection.
func (d *Dispatcher) receiveReturns() {
	ReceiveEach(d.ctx, wire.SignalCameBack, func(back wire.CameBack) {
		d.silent = slices.DeleteFunc(d.silent, func(s silence) bool { return s.task.activityID() == back.Activity })
		if slices.ContainsFunc(d.flying, func(t *task) bool { return t.activityID() == back.Activity }) {
			return // the server still has it
		}
		if back.Clock != nil && d.CameBack != nil {
			d.CameBack(*back.Clock, len(d.flying) > 0)
		}
		if t := d.expiredTask(back.Activity); t != nil && t.Returns < maxReturns {
			d.forgive(t)
			d.Wake()
		}
	})
}

// expiredTask returns the task whose latest expired execution has the ID; nil if there is none.
func (d *Dispatcher) expiredTask(activity string) *task {
	is := func(t *task) bool { return t.expired != nil && t.expired.activity == activity }
	for i := range d.returned {
		if is(&d.returned[i]) {
			return &d.returned[i]
		}
	}
	for _, t := range slices.Concat(d.flying, d.delayed) {
		if is(t) {
			return t
		}
	}
	return nil
}

// forgive takes the latest death of a task back.
func (d *Dispatcher) forgive(t *task) {
	if t.suspicion().Suspected() && !suspicion.Of(&t.expired.before).Suspected() {
		d.sofar.Totals.Isolations--
	}
	t.Suspicion, t.expired = t.expired.before, nil
	t.Returns++
	d.sofar.Totals.Expiries--
	now := workflow.Now(d.ctx)
	d.life.note(d.sofar.Totals, now, now, "")
}
