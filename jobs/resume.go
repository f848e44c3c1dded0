package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/temporal/lookup"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
)

// ResumeOptions may be left zero.
type ResumeOptions struct {
	// Settings replace those that were in force, if they are set.
	Settings job.Settings
	// TaskTimeout is the workflow task timeout; default [DefaultTaskTimeout].
	TaskTimeout time.Duration
}

// RunningError reports that a job still runs that should have ended.
type RunningError struct {
	Name   string
	State  job.State
	Paused bool
}

func (e *RunningError) Error() string {
	if e.State == job.Stopping {
		return fmt.Sprintf("job %s is still stopping: wait for its end", e.Name)
	}
	if e.Paused {
		return fmt.Sprintf("job %s is running, but paused: unpause it", e.Name)
	}
	return fmt.Sprintf("job %s is running", e.Name)
}

// Resume continues a job that was stopped, has failed, or was ended by Temporal itself (terminated, cancelled, timed
// out). Items with an outcome in its manifests are not run again, all others are; after a failure because nothing
// worked this holds for earlier runs only (see [Client.ResumePoint]). The new run begins without the stop, the first
// error and the failures counted so far; its spec is the job's own, with the settings that were in force. Errors:
// *RunningError if the job still runs, *EndedError if it has completed, *NotFoundError.
//
// For a job that Temporal has ended, a worker must answer queries for what the job had recorded.
func (c *Client) Resume(ctx context.Context, name string, o ResumeOptions) (*Run, error) {
	report, err := c.endedReport(ctx, name)
	if err != nil {
		return nil, err
	}
	if report.State == job.Completed {
		return nil, &EndedError{Name: name, State: job.Completed}
	}
	in, err := c.inputOf(ctx, name)
	if err != nil {
		return nil, err
	}
	start, err := c.nextRun(ctx, in, report)
	if err != nil {
		return nil, err
	}
	start.TaskTimeout = o.TaskTimeout
	spec := in.Spec.With(report.Settings)
	if err := spec.CheckSettings(o.Settings); err != nil {
		return nil, err
	}
	return c.startNext(ctx, spec.With(o.Settings), start)
}

// nextRun returns how to continue a job that was started with this input and has ended with this report.
func (c *Client) nextRun(ctx context.Context, in wire.StartInput, report job.Report) (StartOptions, error) {
	start := StartOptions{
		Resume: resumePoint(&in, report), Reuse: true, Spent: report.Usage, Lost: report.LostUsage, Samples: report.Samples, versions: report.Versions, Earlier: earlierRuns(&in, report), Root: rootRun(&in, report),
		salvage: slices.Clone(in.Salvage[max(0, len(in.Salvage)-report.Salvage):]), // what the job has not committed
	}
	if report.Loop != nil {
		start.loop = report.Loop.At
	}
	if in.Redrive != nil {
		start.Resume, start.redrive = redriveAgain(&in, report)
	}
	asks := kindOf(in.Spec, in.Redrive).asks
	if asks {
		start.accepted = max(in.Accepted, report.Planned)
	}
	if !closedByTemporal(report) && len(report.Unsaved) == 0 {
		return start, nil
	}
	legs := slices.Concat(report.Unsaved, report.OpenLegs)
	if err := c.endLegs(ctx, legs); err != nil {
		return start, err
	}
	if report.Loop != nil {
		c.Get(report.Job).addTicks(ctx, &report) // up to the end of its legs
		start.loop = report.Loop.Left()
	}
	pending, err := c.pending(ctx, report.Job, asks, legs)
	if e := new(StuckError); errors.As(err, &e) {
		return start, stuck(report.Job, report.Store, report.Run)
	}
	if err != nil {
		return start, err
	}
	start.salvage = append(start.salvage, pending...)
	return start, nil
}

// closedByTemporal reports whether the report is of a job that Temporal has ended.
func closedByTemporal(r job.Report) bool { return r.Error != nil && r.Error.Type == job.ErrorGone }

// ResumePoint returns the heads of the manifests that the next run of a stopped or failed job continues from, the job
// that report is of: what they account for is not run again. They are the report's Manifests, unless the job has failed
// because nothing worked ([ErrorHopeless]). What failed then was the handler, not the items, so all items of that run
// are run again. Nil: the job starts from its first item.
func (c *Client) ResumePoint(ctx context.Context, report job.Report) ([]string, error) {
	if !hopeless(report) {
		return report.Manifests, nil
	}
	in, err := c.inputOf(ctx, report.Job)
	if err != nil {
		return nil, err
	}
	return resumePoint(&in, report), nil
}

// resumePoint returns the ResumePoint of a job that was started with this input.
func resumePoint(in *wire.StartInput, report job.Report) []string {
	switch {
	case !hopeless(report) || !kindOf(in.Spec, in.Redrive).rerun:
		return report.Manifests
	case report.OK == 0:
		return nil
	}
	return in.Resume
}

// hopeless reports whether the job has failed because nothing worked.
func hopeless(r job.Report) bool { return r.Error != nil && r.Error.Type == job.ErrorHopeless }

// startNext starts the next run of an ended job.
func (c *Client) startNext(ctx context.Context, spec job.Spec, o StartOptions) (*Run, error) {
	run, err := c.Start(ctx, spec, &o)
	if _, ok := errors.AsType[*ExistsError](err); ok { // somebody else has started it
		return nil, &RunningError{Name: spec.Name, State: job.Running}
	}
	return run, err
}

// endLegs ends the legs of a job that Temporal has ended. Those of a feed notice that by themselves, if a worker is
// there, but what they have to give must not change any more.
func (c *Client) endLegs(ctx context.Context, legs []string) error {
	for _, id := range legs {
		err := c.temporal.TerminateWorkflow(ctx, id, "", "its job has ended")
		if err != nil && !errors.As(err, new(*serviceerror.NotFound)) {
			return fmt.Errorf("ending %s: %w", id, err)
		}
	}
	return nil
}

// pending returns what a job that Temporal has ended, and its legs, had accepted and not committed.
func (c *Client) pending(ctx context.Context, name string, asks bool, legs []string) ([]json.RawMessage, error) {
	var all []json.RawMessage
	for _, id := range append([]string{name}, legs...) {
		var from []any
		if asks {
			from = []any{fromNowhere}
		}
		var some []json.RawMessage
		into := any(&some)
		if asks && id != name {
			into = new([]byte) // that it answers is enough
		}
		err := c.askPending(ctx, id, into, from)
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) {
			if asks && id != name { // the server has removed its history
				all = append(all, goneLeg(id))
			}
			continue // any other leg was never started
		}
		if notReady(err) {
			given, unread := c.given(ctx, id)
			if unread != nil {
				return nil, unread
			}
			if given.ran && !asks && id != name {
				left, unread := c.remainsOf(ctx, id, given)
				if unread != nil {
					return nil, unread
				}
				given.Previous = left.heads
			}
			switch {
			case given.ran && (asks || given.Slot != nil):
				return nil, &StuckError{Name: name}
			case !given.ran || id != name:
				all = append(all, given.pending()...)
			}
			continue
		}
		if err != nil {
			return nil, c.Get(name).asked(fmt.Sprintf("what %s had not committed", id), err)
		}
		if asks && id != name {
			leg, err := c.legOf(ctx, id)
			if errors.As(err, &gone) {
				leg, err = goneLeg(id), nil
			}
			if err != nil {
				return nil, err
			}
			all = append(all, leg)
			continue
		}
		all = append(all, some...)
	}
	return fitting(all), nil
}

// pendingTries is how often a workflow is asked what it had not committed if the server's patience ends before a worker
// answers: one that is busy may have to read a long history first.
const pendingTries = 3

// askPending asks a workflow what it had not committed.
func (c *Client) askPending(ctx context.Context, id string, into any, from []any) error {
	for try := 1; ; try++ {
		err := lookup.Query(ctx, c.temporal, id, "", wire.QueryPending, into, from...)
		if try == pendingTries || ctx.Err() != nil || !errors.As(err, new(*serviceerror.DeadlineExceeded)) {
			return err
		}
	}
}

// maxPending bounds what the input of a resumed job has of what legs had accepted and not committed, in bytes.
const maxPending = 1 << 20

// fitting returns what legs had not committed so that it fits into the input of the resumed job: beyond that only the
// manifests that it names. The batches of the others run again. That many are left only by a job with thousands of
// batches in flight, which Temporal has ended.
func fitting(all []json.RawMessage) []json.RawMessage {
	size := 0
	for i, piece := range all {
		if size += len(piece); size <= maxPending {
			continue
		}
		size -= len(piece)
		var short struct {
			Ref      json.RawMessage `json:"ref,omitempty"`
			Leg      int             `json:"leg,omitempty"`
			Previous []string        `json:"previous,omitempty"`
			Workflow string          `json:"workflow,omitempty"`
			Run      string          `json:"run,omitempty"`
			Gone     bool            `json:"gone,omitempty"`
		}
		if json.Unmarshal(piece, &short) != nil {
			continue // it is refused as a whole
		}
		if bare, err := json.Marshal(short); err == nil {
			all[i] = bare
			size += len(bare)
		}
	}
	return all
}

// fromNowhere asks a leg of a feed for nothing: its answer would be too large for a client, so the job asks for it.
// Other legs and jobs ignore it, and answer as a whole.
const fromNowhere = -1

// legOf names a leg of a feed that has ended, for the job to ask it.
func (c *Client) legOf(ctx context.Context, id string) (json.RawMessage, error) {
	desc, err := c.temporal.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", id, err)
	}
	return json.Marshal(map[string]string{"workflow": id, "run": desc.GetWorkflowExecutionInfo().GetExecution().GetRunId()})
}

// goneLeg names a leg of a feed that cannot be asked any more.
func goneLeg(id string) json.RawMessage {
	leg, _ := json.Marshal(map[string]any{"workflow": id, "gone": true}) // cannot fail
	return leg
}

// endedReport returns the last report of a job that must have ended.
func (c *Client) endedReport(ctx context.Context, name string) (job.Report, error) {
	run := c.Get(name)
	desc, err := run.describe(ctx, name)
	if err != nil {
		return job.Report{}, err
	}
	if desc != nil {
		listed := c.listed(desc.GetWorkflowExecutionInfo())
		return job.Report{}, &RunningError{Name: name, State: c.stateOf(ctx, listed), Paused: listed.PausedSince != nil}
	}
	return run.Report(ctx)
}

// stateLimit bounds how long a job is asked for its state: without an answer, the server's list counts.
const stateLimit = 2 * time.Second

// stateOf returns the state of a job that has not ended. The list shows a moment late that a job is stopping, so the
// job is asked.
func (c *Client) stateOf(ctx context.Context, l Listed) job.State {
	if l.State != job.Running {
		return l.State
	}
	ctx, cancel := context.WithTimeout(ctx, stateLimit)
	defer cancel()
	var answer wire.Answer
	_ = lookup.Query(ctx, c.temporal, l.Name, "", wire.QueryReport, &answer) // no answer has no state
	return cmp.Or(answer.State, l.State)
}

// Spec returns the spec that a job's latest run was started with. Errors: *NotFoundError.
func (c *Client) Spec(ctx context.Context, name string) (job.Spec, error) {
	in, err := c.inputOf(ctx, name)
	return in.Spec, err
}

// inputOf reads the input of a job's latest run from the first event of its history.
func (c *Client) inputOf(ctx context.Context, name string) (wire.StartInput, error) {
	events := c.temporal.GetWorkflowHistory(ctx, name, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	if !events.HasNext() {
		return wire.StartInput{}, &NotFoundError{Name: name}
	}
	first, err := events.Next()
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return wire.StartInput{}, &NotFoundError{Name: name}
	}
	if err != nil {
		return wire.StartInput{}, fmt.Errorf("reading how job %s was started: %w", name, err)
	}
	var in wire.StartInput
	err = c.decodeFirst(first.GetWorkflowExecutionStartedEventAttributes().GetInput(), &in)
	if err != nil || in.Spec.Name == "" {
		return wire.StartInput{}, fmt.Errorf("reading how job %s was started: not the input of a stint job: %w", name, err)
	}
	if !wire.Knows(in.Version) {
		return wire.StartInput{}, &NeedsReleaseError{Name: name, Needs: wire.NeedsRelease(in.Version)}
	}
	settle(&in, name)
	return in, nil
}

// NeedsReleaseError reports that a job follows a version of the logic that this program does not know: it cannot
// continue the job.
type NeedsReleaseError struct {
	Name  string
	Needs string // "needs stint ≥ 0.2"
}

func (e *NeedsReleaseError) Error() string {
	return fmt.Sprintf("job %s %s: this program has %s", e.Name, e.Needs, wire.Release(wire.LogicVersion))
}

// settle completes an input that was read from a history: another version of the program may have started the job, so
// its spec gets the defaults of what it lacks; and that of a scheduled job is the same at every tick.
func settle(in *wire.StartInput, name string) {
	if in.Scheduled {
		in.Spec, in.Scheduled = in.Spec.Ticked(name), false
	}
	if in.Spec.Name != "" { // otherwise it is a leg's
		in.Spec = in.Spec.WithDefaults()
	}
}

func (c *Client) decodeFirst(payloads *common.Payloads, to any) error {
	if len(payloads.GetPayloads()) == 0 {
		return errors.New("it has none")
	}
	return c.converter.FromPayload(payloads.GetPayloads()[0], to)
}

// closedByServer reports whether Temporal has ended a workflow, which then has not returned a report.
func closedByServer(status enums.WorkflowExecutionStatus) bool {
	switch status {
	case enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT, enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return true
	}
	return false
}

// lastWords returns the report of a job that has ended without one, from its history.
func (r *Run) lastWords(ctx context.Context, why string, ended time.Time) (job.Report, error) {
	known := newJobProgress(r)
	_, err := known.ask(ctx)
	if notReady(err) {
		err = known.recall(ctx, err)
	}
	report := known.report
	if err != nil {
		return report, err
	}
	report.State, report.Ended, report.PausedSince = job.Failed, &ended, nil
	report.Error = &job.Error{Type: job.ErrorGone, Message: why + "; the job can be resumed"}
	return report, nil
}
