package job

import (
	"cmp"
	"context"
	"fmt"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
)

// List returns the jobs that the namespace knows, the latest first, at most limit of them.
func (c *Client) List(ctx context.Context, limit int) ([]Listed, error) {
	return c.list(ctx, fmt.Sprintf("WorkflowType = '%s' AND TaskQueue = '%s'", WorkflowJob, WorkflowQueue), limit)
}

// list returns the jobs that a query of Temporal's finds, the latest first.
func (c *Client) list(ctx context.Context, query string, limit int) ([]Listed, error) {
	var jobs []Listed
	var token []byte
	for len(jobs) < limit {
		resp, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query:         query,
			PageSize:      int32(min(limit-len(jobs), 1000)),
			NextPageToken: token,
		})
		if err != nil {
			return nil, fmt.Errorf("listing jobs: %w", err)
		}
		for _, info := range resp.GetExecutions() {
			if info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
				jobs = append(jobs, listed(info))
			}
		}
		if token = resp.GetNextPageToken(); len(token) == 0 {
			break
		}
	}
	return jobs, nil
}

// listed reads one entry. Servers need not list the first run of a chain: the run is then the last.
func listed(info *workflow.WorkflowExecutionInfo) Listed {
	l := Listed{
		Name:    info.GetExecution().GetWorkflowId(),
		Run:     cmp.Or(info.GetFirstRunId(), info.GetExecution().GetRunId()),
		Pool:    memoString(info.GetMemo(), MemoPool),
		Output:  memoString(info.GetMemo(), MemoOutput),
		State:   State(memoString(info.GetMemo(), MemoState)),
		Started: info.GetStartTime().AsTime(),
	}
	if info.GetCloseTime() != nil {
		ended := info.GetCloseTime().AsTime()
		l.Ended = &ended
	}
	// The workflow's own end outranks what it last wrote of itself.
	switch info.GetStatus() {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		if l.State != Stopped {
			l.State = Completed
		}
	case enums.WORKFLOW_EXECUTION_STATUS_FAILED, enums.WORKFLOW_EXECUTION_STATUS_TERMINATED,
		enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT, enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
		l.State = Failed
	}
	return l
}

func memoString(memo *common.Memo, field string) string { return memoValue[string](memo, field) }

// memoValue reads a field of a memo; the zero value where there is none, or of another type.
func memoValue[T any](memo *common.Memo, field string) T {
	var v, none T
	if p := memo.GetFields()[field]; p != nil {
		if converter.GetDefaultDataConverter().FromPayload(p, &v) != nil {
			return none
		}
	}
	return v
}
