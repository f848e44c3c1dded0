package coordinate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
)

// maxLaterText bounds what the report keeps of each text of a later error, in bytes as JSON. Of the first it keeps
// more, as execute has it.
const maxLaterText = 500

// ListedAfter is the time from a stop until the server's list shows that the job is stopping. By then its calls have
// been told: a write to the list, at once, delays the stop on a small server by some 5 ms.
const ListedAfter = 100 * time.Millisecond

// stop answers a request to stop. The first one counts; the errors of later ones are listed.
func (c *Coordinator) stop(stop job.Stop) {
	if stop.IgnoreStragglers {
		c.In.Spec.IgnoreStragglers = true
	}
	reason := stop.Reason
	if e := stop.Error; e != nil {
		if !c.stopsCleanly(e) && !c.NoteError(*e) {
			return
		}
		reason = cmp.Or(reason, e.Error())
	}
	if c.Ending() {
		return
	}
	grace := c.Spec().Grace
	if d, err := time.ParseDuration(stop.Grace); err == nil && d >= 0 {
		grace = d
	}
	c.State.Report.Reason = text.Fit(reason, execute.MaxErrorText)
	c.end(grace, c.State.Report.Reason)
}

// Fail ends the job with an error: the first one counts.
func (c *Coordinator) Fail(err *job.Error) {
	if c.stopsCleanly(err) {
		c.stop(job.Stop{Reason: err.Message})
		return
	}
	if c.NoteError(*err) {
		c.end(c.Spec().Grace, text.Fit(err.Message, execute.MaxErrorText))
	}
}

// stopsCleanly reports whether an error stops the job without making it fail.
func (c *Coordinator) stopsCleanly(err *job.Error) bool {
	return err.Type == wire.ErrorBudget || c.Spec().StopsCleanly(err.Type)
}

// NoteError makes err the job's error, unless the job is ending already: then it is listed. It
// reports whether it was the first.
func (c *Coordinator) NoteError(err job.Error) bool {
	r := &c.State.Report
	err.Type = text.Fit(err.Type, execute.MaxErrorType)
	err.Message, err.Stack = text.Fit(err.Message, execute.MaxErrorText), text.Fit(err.Stack, execute.MaxErrorText)
	later := job.Error{Type: err.Type, Message: text.Fit(err.Message, maxLaterText)}
	switch {
	case r.Error == nil && !c.Ending():
		r.Error = &err
		return true
	case r.Error != nil && *r.Error == err, slices.Contains(r.LaterErrors, later):
		// A leg reports its error at once, and again at its end.
	case len(r.LaterErrors) < limits.MaxLaterErrors:
		r.LaterErrors = append(r.LaterErrors, later)
	default:
		r.LaterErrorsOmitted++
	}
	return false
}

// end stops everything that is under way.
func (c *Coordinator) end(grace time.Duration, reason string) {
	if c.Ending() {
		return
	}
	deadline := workflow.Now(c.Ctx).Add(grace)
	c.notice = &wire.StopNotice{Deadline: deadline, Reason: reason}
	c.State.Report.StopDeadline = &deadline
	c.State.Report.State = job.Stopping
	c.endPause()
	if c.Planning.cancel != nil {
		c.Planning.cancel()
	}
	if c.hooks.cancelInit != nil {
		c.limitInit(grace)
	}
	for _, l := range c.Legs {
		l.Halt(*c.notice)
	}
	c.startShutdown(grace)
	c.Selector.AddFuture(workflow.NewTimer(c.Ctx, ListedAfter), func(workflow.Future) { c.listState() })
}

// listenForSettings has settings changed by updates. An update that is refused leaves no trace.
func (c *Coordinator) listenForSettings() error {
	return workflow.SetUpdateHandlerWithOptions(c.Ctx, wire.UpdateSet,
		func(_ workflow.Context, s newSettings) (job.Settings, error) {
			c.set(s.Settings)
			return c.Spec().Settings(), nil
		},
		workflow.UpdateHandlerOptions{Description: "change settings of the running job", Validator: func(s newSettings) error {
			return c.checkSettings(s)
		}})
}

// newSettings are settings as a client gives them. One that this program does not know, because the client is newer, is
// refused, and not left out in silence.
type newSettings struct {
	job.Settings
	unknown error
}

// UnmarshalJSON is that of [json.Unmarshaler].
func (s *newSettings) UnmarshalJSON(data []byte) error {
	known := json.NewDecoder(bytes.NewReader(data))
	known.DisallowUnknownFields()
	if s.unknown = known.Decode(&s.Settings); s.unknown == nil {
		return nil
	}
	return json.Unmarshal(data, &s.Settings)
}

// checkSettings refuses invalid settings.
func (c *Coordinator) checkSettings(given newSettings) error {
	s := given.Settings
	switch {
	case given.unknown != nil:
		return temporal.NewApplicationError(fmt.Sprintf("a setting that the worker, stint %s, does not have (%v): it needs newer workers, or an older client",
			wire.Release(wire.LogicVersion), given.unknown), job.ErrorInvalid)
	case c.notice != nil:
		return temporal.NewApplicationError("the job is stopping: give settings to 'stint resume'", "Ending")
	case c.finishing || c.concluded:
		return temporal.NewApplicationError("all its items are done: settings have no effect any more", "Ending")
	}
	if s.IsZero() {
		return temporal.NewApplicationError("no setting given: use window, batch-items, max-failed, rate, rpm, tpm, max-cost, max-tokens, priority, deadline or STAGE.window", job.ErrorInvalid)
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
	resized := job.Outcomes{Stages: c.Spec().StageReports()}
	resized.Add(job.Outcomes{Stages: c.State.Report.Stages})
	c.State.Report.Stages = resized.Stages
	c.resize()
	c.CheckOutcomes(false)
	if s.Rate != nil || s.MaxFailed != nil || len(s.Windows) > 0 || s.RequestRate != nil || s.TokenRate != nil || s.MaxCost != nil || s.MaxTokens != nil || s.Priority != nil {
		c.SendLimits()
	}
	if s.Deadline != nil {
		c.awaitDeadline()
	}
	if s.BatchItems != nil {
		c.traits.Resized(*s.BatchItems)
	}
	c.WakeUp()
}
