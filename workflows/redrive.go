package workflows

import (
	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
)

// redriven turns the report of a redrive, which has completed, into that of the whole job.
func (j *jobRun) redriven(result activities.FinishResult) {
	if j.in.Redrive == nil {
		return
	}
	r := &j.state.Report
	r.Redriven = result.Redriven
	r.Planned, r.OK, r.Failed, r.Dropped = result.Books.Items, result.Books.OK, result.Books.Failed, result.Books.Dropped
	r.FirstError = result.FirstError
	j.state.Heads = result.Manifests
	r.Manifests = result.Manifests
}

// keepRedrive has the report of a redrive that has not completed tell how to go on with it, and of the
// job's output and manifests, which are as they were.
func (j *jobRun) keepRedrive(r *job.Report) {
	if j.in.Redrive == nil || r.State == job.Completed {
		return
	}
	redrive, output := *j.in.Redrive, j.in.Redrive.Output
	redrive.Done = r.Manifests
	r.Redrive, r.Output, r.Manifests = &redrive, &output, redrive.Manifests
}
