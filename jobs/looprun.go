package jobs

import (
	"context"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/lookup"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/enums/v1"
)

// addTicks adds what running slots have done, from their heartbeats. The server keeps the last heartbeat of a leg that Temporal has ended.
func (r *Run) addTicks(ctx context.Context, report *job.Report) {
	known := slices.Clone(report.Loop.At)
	now := time.Now()
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
			hint, _ := lookup.LastHint(a, r.client.converter)
			if c := hint.Clock; c != nil && c.Slot >= 0 && c.Slot < len(known) && c.Next >= known[c.Slot].Next {
				before := known[c.Slot].Stats
				report.Totals.Add(job.Totals{OK: c.Stats.OK - before.OK, Failed: c.Stats.Failed - before.Failed, Dropped: c.Stats.Dropped - before.Dropped})
				report.Loop.Include(*c)
			}
		}
	}
	for _, at := range report.Loop.At {
		if at.Head != "" && !slices.Contains(report.Manifests, at.Head) {
			report.Manifests = append(report.Manifests, at.Head)
		}
	}
}

// idleAfter is how long a starting slot waits for a place before it counts as idle.
const idleAfter = 2 * time.Second
