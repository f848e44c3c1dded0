package workflows

import (
	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// awaitSpeed bounds the wait for what the first batches show of the handler's speed. It reports
// whether there is something to wait for.
func (j *jobRun) awaitSpeed() bool {
	if j.speedKnown() || j.state.Report.PlanDone {
		return false
	}
	j.selector.AddFuture(workflow.NewTimer(j.ctx, rateWait), func(workflow.Future) { j.rateKnown = true })
	return true
}

// noteSpeed is called with each batch that the inline leg has done.
func (j *jobRun) noteSpeed(l *leg) {
	if l.result.Totals.Batches >= rateBatches {
		j.rateKnown = true
	}
	j.checkOutcomes(false)
	j.wake.SendAsync(nil)
}

func (j *jobRun) legEnded(ended *openLeg, result LegResult) {
	for i := range j.legs {
		if j.legs[i] == ended {
			j.legs = append(j.legs[:i], j.legs[i+1:]...)
			break
		}
	}
	r := &j.state.Report
	j.state.Heads = append(j.state.Heads, result.Manifests...)
	j.state.Speed = result.Speed
	j.rateKnown = true
	r.Totals.Add(result.Totals)
	r.FirstError = r.FirstError.First(result.FirstError)
	r.Stragglers = append(r.Stragglers, result.Stragglers...)
	r.Workers = job.AddWorkers(r.Workers, result.Workers)
	j.state.Fresh.OK += result.Totals.OK
	j.state.Fresh.Failed += result.Totals.Failed
	j.left += result.Left
	j.places += result.Window
	j.grantPlaces(ended.number)
	if result.Error != nil {
		j.fail(result.Error)
	}
	j.checkOutcomes(false)
	if j.limited() {
		j.tellLimits()
	}
}

func (j *jobRun) setState(s job.State) {
	j.state.Report.State = s
	if err := workflow.UpsertMemo(j.ctx, map[string]any{job.MemoState: s}); err != nil {
		workflow.GetLogger(j.ctx).Error("writing the job's state", "error", err)
	}
}

// allPlanned reports that every item is in a page, and every page with a leg.
func (j *jobRun) allPlanned() bool { return j.state.Report.PlanDone && j.page == nil }

// allDone reports that every item has its outcome.
func (j *jobRun) allDone() bool {
	return j.allPlanned() && len(j.legs) == 0 && j.left == 0 && j.state.Report.Done() == j.state.Report.Planned
}

// conclude ends the job: with its output where all is done, otherwise so that it can be resumed.
func (j *jobRun) conclude() (job.Report, error) {
	r := &j.state.Report
	r.Manifests = j.state.Heads
	if j.allPlanned() && j.left == 0 {
		j.checkOutcomes(true)
		if r.Error == nil {
			j.finish()
		}
	}
	_ = workflow.Await(j.ctx, func() bool { return !j.unblocking }) // its context is never cancelled
	j.nameLeftovers()
	j.decide()
	j.cleanUp()
	j.keepRedrive(r)
	ended := workflow.Now(j.ctx)
	r.Ended = &ended
	j.writeReport()
	if j.in.Version >= 1 {
		j.receiveAll() // errors that have come too late to change anything are listed
	}
	j.describe()
	for workflow.GetSignalChannel(j.ctx, job.SignalRestarted).ReceiveAsync(nil) {
	}
	if r.State == job.Failed {
		return job.Report{}, temporal.NewNonRetryableApplicationError(r.Error.Message, r.Error.Type, nil, *r)
	}
	return *r, nil
}

// decide gives the job its final state: nothing that comes later changes it.
func (j *jobRun) decide() {
	r := &j.state.Report
	j.concluded = true
	switch {
	case r.Error != nil && r.Error.Type != job.ErrorLeftovers:
		j.setState(job.Failed)
	case r.Output == nil:
		j.setState(job.Stopped)
	default:
		r.State = job.Completed
	}
}

// nameLeftovers makes work that is still running the job's error, unless there is another or it
// shall be ignored.
func (j *jobRun) nameLeftovers() {
	r := &j.state.Report
	if len(r.Stragglers) > 0 && r.Error == nil && !j.spec().IgnoreStragglers {
		r.Error = job.Leftovers(r.Stragglers)
	}
}

// finish brings the output about. A stop leaves it the grace period; then it is cut off, and can be
// repeated when the job is resumed.
func (j *jobRun) finish() {
	var result activities.FinishResult
	ctx, cancel := workflow.WithCancel(finishOptions(j.ctx, j.spec()))
	defer cancel()
	j.finishing = true
	if j.in.Version >= 1 {
		workflow.Go(j.ctx, func(ctx workflow.Context) {
			for j.finishing {
				j.selector.Select(ctx)
			}
		})
		workflow.Go(ctx, func(ctx workflow.Context) { j.limitFinish(ctx, cancel) })
	}
	err := executeIO(ctx, acts.Finish, activities.FinishInput{
		Ref: j.state.Ref, Spec: j.spec(), Manifests: j.state.Heads, Planned: j.state.Report.Planned,
		Redrive: j.in.Redrive,
	}, &result)
	j.finishing = false
	j.wake.SendAsync(nil)
	switch {
	case err == nil:
		j.state.Report.Output = &result.Output
		j.redriven(result)
	case temporal.IsCanceledError(err) && j.ending():
	case j.in.Version < 1:
		j.state.Report.Error = jobError(err)
	default:
		j.noteError(*jobError(err)) // after a stop it is a later one
	}
}

// limitFinish cuts Finish off when the grace period of a stop is over.
func (j *jobRun) limitFinish(ctx workflow.Context, cutOff func()) {
	told := func() bool { return j.notice != nil }
	if workflow.Await(ctx, told) == nil && workflow.NewTimer(ctx, j.notice.Deadline.Sub(workflow.Now(ctx))).Get(ctx, nil) == nil {
		cutOff()
	}
}

// writeReport puts the final report where the spec wants it; a fault there is told in the log only.
func (j *jobRun) writeReport() {
	if j.spec().Report == "" {
		return
	}
	ctx := ioOptions(j.ctx, j.spec(), "write the report")
	err := executeIO(ctx, acts.WriteReport, activities.ReportInput{Location: j.spec().Report, Report: j.state.Report}, nil)
	if err != nil {
		workflow.GetLogger(j.ctx).Error("writing the report", "error", err)
	}
}

// report answers the query: it adds what the legs inside this workflow know.
func (j *jobRun) report() (job.Report, error) {
	r := j.state.Report
	r.Manifests = j.state.Heads
	r.Throttle = j.throttle()
	for _, l := range j.legs {
		if l.inline == nil {
			if l.begun() {
				r.OpenLegs = append(r.OpenLegs, l.id)
			}
			continue
		}
		p, err := l.inline.progress()
		if err != nil {
			return r, err
		}
		r.Include(p)
	}
	j.keepRedrive(&r)
	return r, nil
}
