package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/stint-run/stint/internal/base/samples"
	"github.com/stint-run/stint/internal/temporal/lookup"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// RunningBatch is a batch that a worker runs, as far as the server knows.
type RunningBatch struct {
	Job   string    `json:"job"`
	Pool  string    `json:"pool,omitempty"` // that runs it; empty: the server does not say
	Since time.Time `json:"since"`          // when the worker took it
	// Beat is the time of its last heartbeat; zero before the first one, which comes after a quarter of
	// the job's expiry. Until then, of the fields below only Worker and PID are known.
	Beat time.Time `json:"beat,omitzero"`
	// First is the ordinal of the first item of the batch, Count the number of items.
	First int64  `json:"first"`
	Count int64  `json:"count"`
	Batch string `json:"batch,omitempty"` // as people read it: "items 12,000–12,999"

	Worker      string `json:"worker,omitempty"`
	Slot        int    `json:"slot"`
	PID         int    `json:"pid,omitempty"`         // of the slot's process, or of the worker
	Incarnation int    `json:"incarnation,omitempty"` // of the slot's process
	Concurrency int    `json:"concurrency,omitempty"` // calls that the slot made at once at the last heartbeat

	// Timers are those that the slot's process, or the batch's handler, held at the last heartbeat: the
	// four with the earliest deadlines.
	Timers []HeldTimer `json:"timers,omitempty"`
}

// HeldTimer is a timer that a handler holds: its scope, and when it expires.
type HeldTimer struct {
	Scope    string    `json:"scope"`
	Deadline time.Time `json:"deadline"`
}

// Running returns the batches that workers run now, the oldest first; none if the job does not run. It
// needs no worker.
func (r *Run) Running(ctx context.Context) ([]RunningBatch, error) {
	desc, err := r.describe(ctx, r.name)
	if err != nil || desc == nil {
		return nil, err
	}
	found := r.inHand(desc)
	for _, child := range desc.GetPendingChildren() {
		leg, err := r.describe(ctx, child.GetWorkflowId())
		if err != nil {
			return nil, err
		}
		found = append(found, r.inHand(leg)...)
	}
	slices.SortFunc(found, func(a, b RunningBatch) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Slot, b.Slot))
	})
	return found, nil
}

// describe returns nil if the workflow does not run.
func (r *Run) describe(ctx context.Context, id string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	desc, err := r.client.temporal.DescribeWorkflowExecution(ctx, id, "")
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", id, err)
	}
	if desc.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, nil
	}
	return desc, nil
}

func (r *Run) inHand(desc *workflowservice.DescribeWorkflowExecutionResponse) []RunningBatch {
	var found []RunningBatch
	for _, a := range desc.GetPendingActivities() {
		if a.GetActivityType().GetName() == string(wire.ActivityProcess) && a.GetState() != enums.PENDING_ACTIVITY_STATE_SCHEDULED {
			found = append(found, r.runningBatch(a))
		}
	}
	return found
}

func (r *Run) runningBatch(a *workflow.PendingActivityInfo) RunningBatch {
	hint, beat := lookup.LastHint(a, r.client.converter)
	b := RunningBatch{
		Job: r.name, Pool: wire.PoolOfQueue(a.GetActivityOptions().GetTaskQueue().GetName()), Since: a.GetLastStartedTime().AsTime(), Beat: beat,
		First: hint.First, Count: hint.Count, Batch: hint.Batch,
		Worker: hint.Worker, Slot: hint.Slot, PID: hint.PID, Incarnation: hint.Incarnation, Concurrency: hint.Concurrency,
	}
	for _, t := range hint.Timers {
		b.Timers = append(b.Timers, HeldTimer(t))
	}
	return b
}

// heldUp finds the outage that has the server repeat an activity outside the slots, of the job or of a leg: no workflow
// sees it. It returns nil if there is no outage, or if that is not known.
func (r *Run) heldUp(ctx context.Context, legs []string) *job.Outage {
	var found *job.Outage
	for _, id := range append([]string{r.name}, legs...) {
		desc, err := r.client.temporal.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			continue // the report is worth having without it
		}
		for _, a := range desc.GetPendingActivities() {
			failure := a.GetLastFailure()
			if failure.GetApplicationFailureInfo().GetType() != job.ErrorOutage {
				continue
			}
			o := &job.Outage{Tries: int(a.GetAttempt()) - 1, Message: failure.GetMessage()}
			if next := a.GetNextAttemptScheduleTime(); next != nil {
				o.Next = next.AsTime()
			}
			found = found.Earlier(o)
		}
	}
	return found
}

// addTicks adds what running slots have done, from their heartbeats. The server keeps the last heartbeat of a leg that
// Temporal has ended.
func (r *Run) addTicks(ctx context.Context, report *job.Report) {
	known := slices.Clone(report.Loop.At)
	now := time.Now()
	life := samples.New(report.Life.Grain())
	for _, leg := range report.OpenLegs {
		desc, err := r.client.temporal.DescribeWorkflowExecution(ctx, leg, "")
		if err != nil {
			continue // the report is worth having without it
		}
		runs := desc.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING
		for _, a := range desc.GetPendingActivities() {
			if a.GetActivityType().GetName() != string(wire.ActivityProcess) {
				continue
			}
			switch {
			case !runs:
			case a.GetState() != enums.PENDING_ACTIVITY_STATE_SCHEDULED:
				report.Loop.Running++
			case now.Sub(a.GetScheduledTime().AsTime()) > idleAfter:
				report.Loop.Idle++
			}
			hint, beat := lookup.LastHint(a, r.client.converter)
			if c := hint.Clock; c != nil && c.Slot >= 0 && c.Slot < len(known) && c.Next >= known[c.Slot].Next {
				before := known[c.Slot].Stats
				more := job.Totals{OK: c.Stats.OK - before.OK, Failed: c.Stats.Failed - before.Failed, Dropped: c.Stats.Dropped - before.Dropped}
				report.Totals.Add(more)
				life.Add(beganBefore(a, beat), beat, samples.Counts{samples.OK: more.OK, samples.Failed: more.Failed}, "")
				report.Loop.Include(*c)
			}
		}
	}
	report.Life = report.Life.Plus(life.Pack())
	for _, at := range report.Loop.At {
		if at.Head != "" && !slices.Contains(report.Manifests, at.Head) {
			report.Manifests = append(report.Manifests, at.Head)
		}
	}
}

// idleAfter is how long a starting slot waits for a place before it counts as idle.
const idleAfter = 2 * time.Second
