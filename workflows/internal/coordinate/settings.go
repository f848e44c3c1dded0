package coordinate

import (
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// listenForSettings has settings changed by updates. An update that is refused leaves no trace.
func (c *Coordinator) listenForSettings() error {
	return workflow.SetUpdateHandlerWithOptions(c.Ctx, wire.UpdateSet,
		func(_ workflow.Context, s job.Settings) (job.Settings, error) {
			c.set(s)
			return c.Spec().Settings(), nil
		},
		workflow.UpdateHandlerOptions{Description: "change settings of the running job", Validator: c.checkSettings})
}

// checkSettings refuses invalid settings.
func (c *Coordinator) checkSettings(s job.Settings) error {
	switch {
	case c.notice != nil:
		return temporal.NewApplicationError("the job is stopping: give settings to 'stint resume'", "Ending")
	case c.finishing || c.concluded:
		return temporal.NewApplicationError("all its items are done: settings have no effect any more", "Ending")
	}
	if s.IsZero() {
		return temporal.NewApplicationError("no setting given: use window, batch-items, max-failed, rate or STAGE.window", job.ErrorInvalid)
	}
	if err := c.Spec().CheckSettings(s); err != nil {
		return temporal.NewApplicationError(err.Error(), job.ErrorInvalid)
	}
	return nil
}

// set changes settings. They are part of the spec from then on, over all the job's runs.
func (c *Coordinator) set(s job.Settings) {
	c.In.Spec = c.Spec().With(s)
	c.State.Report.Settings = c.Spec().Settings()
	c.State.Report.Stages = wire.AddStages(c.Spec().StageReports(), c.State.Report.Stages)
	c.resize()
	c.CheckOutcomes(false)
	if s.Rate != nil || s.MaxFailed != nil || len(s.Windows) > 0 {
		c.SendLimits()
	}
	if s.BatchItems != nil {
		c.traits.Resized(*s.BatchItems)
	}
	c.WakeUp()
}
