package workflows

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

// receiveAll takes in all that has arrived.
func (j *jobRun) receiveAll() {
	var stop job.Stop
	for workflow.GetSignalChannel(j.ctx, job.SignalStop).ReceiveAsync(&stop) {
		j.stop(stop)
		stop = job.Stop{}
	}
	var failure job.Error
	for workflow.GetSignalChannel(j.ctx, signalFail).ReceiveAsync(&failure) {
		j.fail(&failure)
		failure = job.Error{}
	}
	var wish slowWish
	for workflow.GetSignalChannel(j.ctx, signalSlow).ReceiveAsync(&wish) {
		j.slow(wish)
		wish = slowWish{}
	}
	var told counts
	for workflow.GetSignalChannel(j.ctx, signalCounts).ReceiveAsync(&told) {
		j.receiveCounts(told)
		told = counts{}
	}
}

// stop answers a wish to stop. The first one counts; the errors of later ones are listed.
func (j *jobRun) stop(stop job.Stop) {
	if stop.IgnoreStragglers {
		j.in.Spec.IgnoreStragglers = true
	}
	reason := stop.Reason
	if e := stop.Error; e != nil {
		if !j.stopsCleanly(e) && !j.noteError(*e) {
			return
		}
		reason = cmp.Or(reason, e.Error())
	}
	if j.ending() {
		return
	}
	grace := max(0, j.spec().Grace)
	if d, err := time.ParseDuration(stop.Grace); err == nil && d >= 0 {
		grace = d
	}
	j.state.Report.Reason = cut(reason)
	j.end(grace, j.state.Report.Reason)
}

// fail ends the job with an error: the first one counts.
func (j *jobRun) fail(err *job.Error) {
	if j.stopsCleanly(err) {
		j.stop(job.Stop{Reason: err.Message})
		return
	}
	if j.noteError(*err) {
		j.end(max(0, j.spec().Grace), cut(err.Message))
	}
}

// stopsCleanly reports whether an error stops the job without making it fail.
func (j *jobRun) stopsCleanly(err *job.Error) bool {
	return slices.Contains(j.spec().CleanStop, err.Type)
}

// noteError makes err the job's error, unless the job is ending already: then it is listed. It
// reports whether it was the first.
func (j *jobRun) noteError(err job.Error) bool {
	r := &j.state.Report
	err.Type, err.Message, err.Stack = cut(err.Type), cut(err.Message), cut(err.Stack)
	later := job.Error{Type: err.Type, Message: cutTo(err.Message, maxLaterText)}
	switch {
	case r.Error == nil && !j.ending():
		r.Error = &err
		return true
	case r.Error != nil && *r.Error == err, slices.Contains(r.LaterErrors, later):
		// A leg tells of its error at once, and again at its end.
	case len(r.LaterErrors) < job.MaxLaterErrors:
		r.LaterErrors = append(r.LaterErrors, later)
	default:
		r.LaterErrorsOmitted++
	}
	return false
}

// maxErrorText and maxLaterText bound what the report keeps of each text of an error that somebody
// reports, of the first and of later ones, in bytes.
const (
	maxErrorText = 4000
	maxLaterText = 500
)

func cut(text string) string { return cutTo(text, maxErrorText) }

func cutTo(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// end tells everything that is under way to end.
func (j *jobRun) end(grace time.Duration, reason string) {
	if j.ending() {
		return
	}
	deadline := workflow.Now(j.ctx).Add(grace)
	j.notice = &job.StopNotice{Deadline: deadline, Reason: reason}
	j.state.Report.StopDeadline = &deadline
	j.setState(job.Stopping)
	if j.cancelPlan != nil {
		j.cancelPlan()
	}
	if j.cancelInit != nil {
		j.limitInit(grace)
	}
	for _, l := range j.legs {
		if l.inline != nil {
			l.halt.SendAsync(*j.notice)
			continue
		}
		j.signal(l, signalHalt, *j.notice, func() {})
	}
	j.startShutdown(grace)
}
