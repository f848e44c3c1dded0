package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
)

// Place tells where a batch runs.
type Place struct {
	Worker      string `json:"worker,omitempty"`
	Slot        int    `json:"slot"`
	PID         int    `json:"pid,omitempty"`         // of the slot's process, or of the worker
	Incarnation int    `json:"incarnation,omitempty"` // of the slot's process
}

// Hint is what an execution of a batch tells with its heartbeats.
type Hint struct {
	First int64  `json:"first"` // ordinal of the first item in hand
	Count int64  `json:"count"`
	Batch string `json:"batch,omitempty"` // as people read it: "items 12,000–12,999"
	Place
}

// RunningBatch is a batch that a worker has in hand, as far as the server knows.
type RunningBatch struct {
	Job   string    `json:"job"`
	Since time.Time `json:"since"` // when the worker took it
	// Beat is when it last heartbeat; zero before the first time, which comes after a quarter of the
	// job's expiry. Until then nothing but the worker is known of what follows.
	Beat time.Time `json:"beat,omitzero"`
	Hint
}

// Running returns the batches that workers have in hand, the oldest first.
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

// ActivityPlace tells where an activity runs.
type ActivityPlace struct {
	Activity string `json:"activity"` // its ID
	Place
}

// Places returns where the batches run that a workflow, a job or a leg, has given out.
func (c *Client) Places(ctx context.Context, workflowID, runID string) ([]ActivityPlace, error) {
	desc, err := c.temporal.DescribeWorkflowExecution(ctx, workflowID, runID)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", workflowID, err)
	}
	var found []ActivityPlace
	for _, a := range desc.GetPendingActivities() {
		if a.GetActivityType().GetName() == ActivityProcess && a.GetState() != enums.PENDING_ACTIVITY_STATE_SCHEDULED {
			found = append(found, ActivityPlace{Activity: a.GetActivityId(), Place: (&Run{}).runningBatch(a).Place})
		}
	}
	return found, nil
}

// describe returns nil for a workflow that does not run.
func (r *Run) describe(ctx context.Context, id string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	desc, err := r.client.temporal.DescribeWorkflowExecution(ctx, id, "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
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
		if a.GetActivityType().GetName() == ActivityProcess && a.GetState() != enums.PENDING_ACTIVITY_STATE_SCHEDULED {
			found = append(found, r.runningBatch(a))
		}
	}
	return found
}

func (r *Run) runningBatch(a *workflow.PendingActivityInfo) RunningBatch {
	b := RunningBatch{Job: r.name, Since: a.GetLastStartedTime().AsTime()}
	if details := a.GetHeartbeatDetails(); details != nil {
		_ = converter.GetDefaultDataConverter().FromPayloads(details, &b.Hint) // another version's: the worker is known
		b.Beat = a.GetLastHeartbeatTime().AsTime()
	}
	b.Worker = cmp.Or(b.Worker, a.GetLastWorkerIdentity())
	if b.PID == 0 {
		b.PID = workerPID(b.Worker)
	}
	return b
}

// workerPID is the process of a worker, as its name tells it: "host-pid". 0 where it does not.
func workerPID(name string) int {
	pid, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// PoolWorker is a process that serves a pool.
type PoolWorker struct {
	Pool   string    `json:"pool"`
	Worker string    `json:"worker"`
	Seen   time.Time `json:"seen"` // when it last asked for a batch
}

// Workers returns the processes that have asked for a pool's batches within the last minutes, as
// the server saw them, by name. A worker whose slots are all busy does not ask.
func (c *Client) Workers(ctx context.Context, pool string) ([]PoolWorker, error) {
	pollers, err := c.pollers(ctx, pool)
	if err != nil {
		return nil, err
	}
	var found []PoolWorker
	for _, p := range pollers {
		found = append(found, PoolWorker{Pool: pool, Worker: p.GetIdentity(), Seen: p.GetLastAccessTime().AsTime()})
	}
	slices.SortFunc(found, func(a, b PoolWorker) int { return cmp.Compare(a.Worker, b.Worker) })
	return found, nil
}

// Pollers counts the processes that poll a pool's task queue for batches, as the server saw them
// within the last minutes.
func (c *Client) Pollers(ctx context.Context, pool string) (int, error) {
	pollers, err := c.pollers(ctx, pool)
	return len(pollers), err
}

func (c *Client) pollers(ctx context.Context, pool string) ([]*taskqueue.PollerInfo, error) {
	resp, err := c.temporal.DescribeTaskQueue(ctx, PoolQueue(pool), enums.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return nil, fmt.Errorf("asking who serves pool %s: %w", pool, err)
	}
	return resp.GetPollers(), nil
}
