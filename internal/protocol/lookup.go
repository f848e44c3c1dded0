package protocol

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

// Places returns where the batches run that a workflow, a job or a leg, has dispatched. The converter is
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
		found = append(found, ActivityPlace{Activity: a.GetActivityId(), Place: hint.Place})
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
