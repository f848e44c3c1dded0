package protocol

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

// Places returns where the batches run that a workflow, a job or a leg, has dispatched, as their last heartbeats say. The converter is
// that of the client.
func Places(ctx context.Context, c client.Client, conv converter.DataConverter, workflowID, runID string) ([]ActivityPlace, error) {
	desc, err := c.DescribeWorkflowExecution(ctx, workflowID, runID)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", workflowID, err)
	}
	var found []ActivityPlace
	for _, a := range desc.GetPendingActivities() {
		if a.GetActivityType().GetName() != ActivityProcess || a.GetState() == enums.PENDING_ACTIVITY_STATE_SCHEDULED {
			continue
		}
		hint, _ := LastHint(a, conv)
		found = append(found, ActivityPlace{Activity: a.GetActivityId(), Place: hint.Place, Clock: hint.Clock})
	}
	return found, nil
}

// noticeLimit bounds the look-up of a stop's deadline: without it, the job's own grace counts.
const noticeLimit = 2 * time.Second

// FindStop finds a stop in the memo of a workflow. It returns false if there is none, or if the server
// does not answer within 2 s.
func FindStop(ctx context.Context, c client.Client, conv converter.DataConverter, workflowID, runID string) (StopNotice, bool) {
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	var n StopNotice
	desc, err := c.DescribeWorkflowExecution(ctx, workflowID, runID)
	if err != nil {
		return n, false
	}
	payload := desc.GetWorkflowExecutionInfo().GetMemo().GetFields()[MemoStop]
	if payload == nil {
		return n, false
	}
	return n, conv.FromPayload(payload, &n) == nil
}

// Counted is what a leg reports to its job of its progress, or a job to those who list it.
type Counted struct {
	OK      int64     `json:"ok"`
	Failed  int64     `json:"failed,omitempty"`
	Dropped int64     `json:"dropped,omitempty"`
	Batches int64     `json:"batches,omitempty"`
	Bytes   int64     `json:"bytes,omitempty"` // of input
	At      time.Time `json:"at"`
}

// Milestone is how far a job had come at a time: the value of MemoProgress.
type Milestone struct {
	Counted
	Planned    int64 `json:"planned"`               // items found
	PlanDone   bool  `json:"plan_done,omitempty"`   // all items have been found
	TotalBytes int64 `json:"total_bytes,omitempty"` // of input; 0: not known
}

// Done is the number of items with an outcome.
func (c Counted) Done() int64 { return c.OK + c.Failed }
