package workflows

import (
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// listenForSettings has settings changed by updates. An update that is refused leaves no trace.
func (j *jobRun) listenForSettings() error {
	return workflow.SetUpdateHandlerWithOptions(j.ctx, job.UpdateSet,
		func(_ workflow.Context, s job.Settings) (job.Settings, error) {
			j.set(s)
			return j.spec().Settings(), nil
		},
		workflow.UpdateHandlerOptions{Description: "change settings of the running job", Validator: j.checkSettings})
}

// checkSettings refuses what cannot be set.
func (j *jobRun) checkSettings(s job.Settings) error {
	switch {
	case j.notice != nil:
		return temporal.NewApplicationError("it is stopping: settings can be given to 'stint resume'", "Ending")
	case j.finishing || j.concluded:
		return temporal.NewApplicationError("all its items are done: there is nothing left to set", "Ending")
	}
	if s == (job.Settings{}) {
		return temporal.NewApplicationError("nothing to set: name window, batch-items, max-failed or rate", job.ErrorInvalid)
	}
	if err := j.spec().With(s).Validate(); err != nil {
		return temporal.NewApplicationError(err.Error(), job.ErrorInvalid)
	}
	return nil
}

// set changes settings. They are part of the spec from then on, over all the job's runs.
func (j *jobRun) set(s job.Settings) {
	before := j.spec().Window
	j.in.Spec = j.spec().With(s)
	j.state.Report.Settings = j.spec().Settings()
	if more := j.spec().Window - before; more != 0 {
		j.places, j.resized = j.places+more, true
		j.grantPlaces(-1)
	}
	j.checkOutcomes(false)
	if s.Rate != nil || s.MaxFailed != nil {
		j.tellLimits()
	}
	j.wake.SendAsync(nil)
}
