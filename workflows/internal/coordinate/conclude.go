package coordinate

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/temporal/search"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// setState changes the state, for those who list jobs, too.
func (c *Coordinator) setState(s job.State) {
	c.State.Report.State = s
	c.listState()
}

// listState has those who list jobs see the job's state.
func (c *Coordinator) listState() {
	memo := map[string]any{wire.MemoState: c.State.Report.State}
	if c.State.Report.PausedFor > 0 && !c.Paused() {
		memo[wire.MemoPaused] = nil // what ends a job ends its pause
	}
	c.enlist(c.milestone(c.overview()), memo)
}

// noteProgress has those who list jobs know how far the job is: whenever the items done have doubled, or a tenth of the
// job has been added, but not within leastNote.
func (c *Coordinator) noteProgress(r job.Report) {
	now, done := workflow.Now(c.Ctx), r.Done()
	if c.concluded || now.Sub(c.State.Listed.At) < leastNote || done == c.State.Listed.Done() {
		return
	}
	whole := max(r.Planned, done)
	if before := c.State.Listed.Done(); done >= 2*before || r.PlanDone && 10*(done-before) >= whole {
		c.enlist(c.milestone(r), map[string]any{})
	}
}

// leastNote is the time between two notes of a job's progress.
const leastNote = 10 * time.Second

// milestone returns how far the job is by an overview.
func (c *Coordinator) milestone(r job.Report) job.Counted {
	return job.Counted{
		OK: r.OK, Failed: r.Failed, Dropped: r.Dropped, Batches: r.Batches, Bytes: r.InputBytes, Spent: r.Spent(), At: cmp.Or(r.AsOf, workflow.Now(c.Ctx)),
		Planned: r.Planned, PlanDone: r.PlanDone, TotalBytes: r.TotalBytes,
	}
}

// enlist writes what those who list jobs see.
func (c *Coordinator) enlist(m job.Counted, memo map[string]any) {
	c.State.Listed = m
	c.State.Listed.At = workflow.Now(c.Ctx)
	memo[wire.MemoProgress] = m
	if c.In.Searchable {
		r := c.overview()
		percent, _ := r.Percent()
		found := search.Attributes{Pool: r.Pool, State: r.State, Percent: percent, Failed: r.Failed} // what the server's own list can filter by
		if err := workflow.UpsertTypedSearchAttributes(c.Ctx, found.Updates()...); err != nil {
			workflow.GetLogger(c.Ctx).Error("writing the job's search attributes", "error", err)
		}
	}
	if err := workflow.UpsertMemo(c.Ctx, memo); err != nil {
		workflow.GetLogger(c.Ctx).Error("writing the job's state", "error", err)
	}
}

// allDone reports that every item has its outcome.
func (c *Coordinator) allDone() bool {
	return c.allPlanned() && len(c.Legs) == 0 && c.Left == 0 && c.State.Report.Done()+c.State.Report.Discarded == c.State.Report.Planned
}

// conclude ends the job: with its output if all is done, otherwise so that it can be resumed.
func (c *Coordinator) conclude() (job.Report, error) {
	r := &c.State.Report
	r.Manifests, r.UnservedPools = c.State.Heads, nil
	if c.allPlanned() && c.Left == 0 {
		c.CheckOutcomes(true)
		if r.Error == nil {
			c.Finish()
		}
	}
	_ = workflow.Await(c.Ctx, func() bool { return !c.hooks.unblocking }) // its context is never cancelled
	c.nameLeftovers()
	if c.State.Portions > 0 { // before that, what earlier runs have done is not counted
		r.SettleLife()
	}
	c.decide()
	c.listFailures()
	c.cleanUp()
	if r.State != job.Completed {
		c.work.CompleteReport(r)
	}
	ended := workflow.Now(c.Ctx)
	r.Ended = &ended
	c.writeReport()
	c.ReceiveAll() // errors that have come too late to change anything are listed
	c.describe()
	c.Outbox.Flush()
	for workflow.GetSignalChannel(c.Ctx, wire.SignalRestarted).ReceiveAsync(nil) {
	}
	if r.State == job.Failed {
		return job.Report{}, temporal.NewNonRetryableApplicationError(r.Error.Message, r.Error.Type, nil, *r)
	}
	return *r, nil
}

// decide gives the job its final state: nothing that comes later changes it.
func (c *Coordinator) decide() {
	r := &c.State.Report
	c.concluded = true
	switch {
	case r.Error != nil && r.Error.Type != job.ErrorLeftovers:
		c.setState(job.Failed)
	case r.Output == nil:
		c.setState(job.Stopped)
	default:
		r.State = job.Completed
		if r.Failed > 0 || c.In.Searchable { // a job without failures needs no entry: the list has the state of its workflow
			c.enlist(c.milestone(*r), map[string]any{})
		}
	}
}

// listFailures has the errors file written if the job has failed and items have, too. That it cannot be written is only
// logged: the records are in the store as well.
func (c *Coordinator) listFailures() {
	r := &c.State.Report
	if r.State != job.Failed || r.Failed == 0 || len(c.State.Heads) == 0 || c.Spec().OnError == job.OnErrorDrop {
		return
	}
	ctx := execute.FailuresOptions(c.Ctx, c.Spec())
	listed, err := c.traits.ListFailures(ctx, c.snapshot())
	switch {
	case err != nil:
		workflow.GetLogger(c.Ctx).Error("writing the errors file", "error", err)
	case listed.Location != "":
		r.Output, r.Failures = &job.Output{Errors: listed.Location}, listed.Failures
	}
}

// nameLeftovers makes work that is still running the job's error, or a later one if the job has an error already,
// unless the spec ignores it.
func (c *Coordinator) nameLeftovers() {
	r := &c.State.Report
	if len(r.Stragglers) == 0 || c.Spec().IgnoreStragglers {
		return
	}
	left := leftovers(r.Stragglers, r.StragglersOmitted)
	if r.Error == nil {
		r.Error = left
		return
	}
	if len(r.LaterErrors) == limits.MaxLaterErrors { // who waits for a stop looks for this one: another makes room
		r.LaterErrors = r.LaterErrors[:limits.MaxLaterErrors-1]
		r.LaterErrorsOmitted++
	}
	r.LaterErrors = append(r.LaterErrors, job.Error{Type: left.Type, Message: text.Fit(left.Message, maxLaterText)})
}

// leftovers returns the error of a job that stopped with these, and more, still running.
func leftovers(stragglers []job.Straggler, more int) *job.Error {
	var names []string
	for _, s := range stragglers[:min(len(stragglers), namedStragglers)] {
		names = append(names, s.String())
	}
	all := strings.Join(names, "; ")
	if n := len(stragglers) - namedStragglers + more; n > 0 {
		all += fmt.Sprintf("; and %d more", n)
	}
	return &job.Error{Type: job.ErrorLeftovers, Message: "Coordinator stopped with work still running: " + all}
}

// namedStragglers is how many of them an error names.
const namedStragglers = 10

// Finish has the output published. A stop leaves it the grace period; then it is cut off, and can be
// repeated when the job is resumed.
func (c *Coordinator) Finish() {
	ctx, cancel := workflow.WithCancel(execute.FinishOptions(c.Ctx, c.Spec()))
	defer cancel()
	c.finishing = true
	workflow.Go(c.Ctx, func(ctx workflow.Context) {
		for c.finishing {
			c.Selector.Select(ctx)
		}
	})
	workflow.Go(ctx, func(ctx workflow.Context) { c.limitFinish(ctx, cancel) })
	err := c.work.Finish(ctx, c.snapshot(), &c.State.Report)
	c.finishing = false
	c.WakeUp()
	switch {
	case err == nil:
		c.State.Heads = c.State.Report.Manifests
	case temporal.IsCanceledError(err) && c.Ending():
	default:
		c.NoteError(*execute.JobError(err)) // after a stop it is a later one
	}
}

// limitFinish cuts Finish off when the grace period of a stop is over.
func (c *Coordinator) limitFinish(ctx workflow.Context, cutOff func()) {
	stopped := func() bool { return c.notice != nil }
	if workflow.Await(ctx, stopped) == nil && workflow.NewTimer(ctx, c.notice.Deadline.Sub(workflow.Now(ctx))).Get(ctx, nil) == nil {
		cutOff()
	}
}

// writeReport puts the final report where the spec wants it; an error there is only logged.
func (c *Coordinator) writeReport() {
	if c.Spec().Report == "" {
		return
	}
	ctx := execute.IOOptions(c.Ctx, c.Spec(), "write the report")
	_, err := execute.IO(ctx, wire.ActivityWriteReport, wire.ReportInput{Location: c.Spec().Report, Report: c.State.Report, Ref: c.State.Ref})
	if err != nil {
		workflow.GetLogger(c.Ctx).Error("writing the report", "error", err)
	}
}
