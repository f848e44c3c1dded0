package workflows

import (
	"time"

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
	j.wake.SendAsync(nil)
}

// handInline takes places that the inline leg does not need any more.
func (j *jobRun) handInline(places int) workflow.Future {
	future, settable := workflow.NewFuture(j.ctx)
	settable.Set(nil, nil)
	j.places += places
	j.grantPlaces(0)
	return future
}

// grantPlaces gives places that no leg holds to the leg that was started last, provided that it was
// started after the one that had them: an older one has no use for them. Otherwise the next leg
// begins with them.
func (j *jobRun) grantPlaces(from int) {
	if j.places == 0 || len(j.legs) == 0 {
		return
	}
	last := j.legs[len(j.legs)-1]
	if last.number <= from {
		return
	}
	places := j.places
	j.places = 0
	j.signal(last, signalGrant, places, func() {
		j.places += places
		j.grantPlaces(last.number)
	})
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
	j.left += result.Left
	j.places += result.Window
	j.grantPlaces(ended.number)
	if result.Error != nil {
		j.fail(result.Error)
	}
}

// receiveStop takes in the stops that have been asked for: the first one counts.
func (j *jobRun) receiveStop() {
	var stop job.Stop
	for workflow.GetSignalChannel(j.ctx, job.SignalStop).ReceiveAsync(&stop) {
		j.stop(stop)
		stop = job.Stop{}
	}
}

func (j *jobRun) stop(stop job.Stop) {
	if j.ending() {
		return
	}
	grace := max(0, j.spec().Grace)
	if d, err := time.ParseDuration(stop.Grace); err == nil && d >= 0 {
		grace = d
	}
	j.state.Report.Reason, j.state.Report.Error = stop.Reason, stop.Error
	j.end(grace, stop.Reason)
}

// fail ends the job with an error: the first one counts.
func (j *jobRun) fail(err *job.Error) {
	if j.state.Report.Error == nil && !j.ending() {
		j.state.Report.Error = err
	}
	j.end(max(0, j.spec().Grace), err.Message)
}

// end tells everything that is under way to end.
func (j *jobRun) end(grace time.Duration, reason string) {
	if j.ending() {
		return
	}
	j.notice = &job.StopNotice{Deadline: workflow.Now(j.ctx).Add(grace), Reason: reason}
	j.setState(job.Stopping)
	if j.planning {
		j.cancelPlan()
	}
	for _, l := range j.legs {
		if l.inline != nil {
			l.halt.SendAsync(*j.notice)
			continue
		}
		j.signal(l, signalHalt, *j.notice, func() {})
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
	if r.Error == nil && j.allPlanned() && j.left == 0 {
		j.finish()
	}
	switch {
	case r.Error != nil:
		j.setState(job.Failed)
	case r.Output == nil:
		j.setState(job.Stopped)
	default:
		r.State = job.Completed
	}
	j.keepRedrive(r)
	ended := workflow.Now(j.ctx)
	r.Ended = &ended
	j.writeReport()
	j.describe()
	for workflow.GetSignalChannel(j.ctx, job.SignalRestarted).ReceiveAsync(nil) {
	}
	if r.Error != nil {
		return job.Report{}, temporal.NewNonRetryableApplicationError(r.Error.Message, r.Error.Type, nil, *r)
	}
	return *r, nil
}

func (j *jobRun) finish() {
	var result activities.FinishResult
	ctx := ioOptions(j.ctx, j.spec(), "check the books and publish the output")
	err := executeIO(ctx, acts.Finish, activities.FinishInput{
		Ref: j.state.Ref, Spec: j.spec(), Manifests: j.state.Heads, Planned: j.state.Report.Planned,
		Redrive: j.in.Redrive,
	}, &result)
	if err != nil {
		j.state.Report.Error = jobError(err)
		return
	}
	j.state.Report.Output = &result.Output
	j.redriven(result)
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
	for _, l := range j.legs {
		if l.inline == nil {
			r.OpenLegs = append(r.OpenLegs, l.id)
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
