package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/internal/trap"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// RunningBatch is a batch that a worker runs, as far as the server knows.
type RunningBatch struct {
	Job   string    `json:"job"`
	Since time.Time `json:"since"` // when the worker took it
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
type HeldTimer = protocol.HeldTimer

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
		if a.GetActivityType().GetName() == protocol.ActivityProcess && a.GetState() != enums.PENDING_ACTIVITY_STATE_SCHEDULED {
			found = append(found, r.runningBatch(a))
		}
	}
	return found
}

func (r *Run) runningBatch(a *workflow.PendingActivityInfo) RunningBatch {
	hint, beat := protocol.LastHint(a, r.client.converter)
	return RunningBatch{
		Job: r.name, Since: a.GetLastStartedTime().AsTime(), Beat: beat,
		First: hint.First, Count: hint.Count, Batch: hint.Batch,
		Worker: hint.Worker, Slot: hint.Slot, PID: hint.PID, Incarnation: hint.Incarnation, Concurrency: hint.Concurrency, Timers: hint.Timers,
	}
}

// heldUp finds the outage for which the server repeats an activity of the job, or of one of its legs, that
// runs outside the slots: no workflow sees that. It returns nil if there is none, or if that is not known.
func (r *Run) heldUp(ctx context.Context, legs []string) *Outage {
	var found *Outage
	for _, id := range append([]string{r.name}, legs...) {
		desc, err := r.client.temporal.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			continue // the report is worth having without it
		}
		for _, a := range desc.GetPendingActivities() {
			failure := a.GetLastFailure()
			if failure.GetApplicationFailureInfo().GetType() != ErrorOutage {
				continue
			}
			o := &Outage{Tries: int(a.GetAttempt()) - 1, Message: failure.GetMessage()}
			if next := a.GetNextAttemptScheduleTime(); next != nil {
				o.Next = next.AsTime()
			}
			found = found.earlier(o)
		}
	}
	return found
}

// PoolWorker is a process that serves a pool.
type PoolWorker struct {
	Pool   string    `json:"pool"`
	Worker string    `json:"worker"`
	Seen   time.Time `json:"seen"` // when it last polled for a batch
}

// Workers returns the processes that have polled for a pool's batches within the last minutes, as the
// server saw them, by name. A worker whose slots are all busy does not poll.
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

// Pollers returns the number of [Client.Workers].
func (c *Client) Pollers(ctx context.Context, pool string) (int, error) {
	pollers, err := c.pollers(ctx, pool)
	return len(pollers), err
}

func (c *Client) pollers(ctx context.Context, pool string) ([]*taskqueue.PollerInfo, error) {
	resp, err := c.temporal.DescribeTaskQueue(ctx, protocol.PoolQueue(pool), enums.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return nil, fmt.Errorf("asking who serves pool %s: %w", pool, err)
	}
	return resp.GetPollers(), nil
}

// followLimit is how long a report may take while a job is followed.
const followLimit = 3 * time.Second

// Follow is [Run.Wait], and reports meanwhile how the job stands: about every interval, which must be
// above 0, it calls progress with a report, until the job has ended. progress is never called twice
// at a time. A report that takes longer than three seconds is left out: no worker answers for the job.
func (r *Run) Follow(ctx context.Context, interval time.Duration, progress func(Report)) (Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reported := trap.Go("reporting on a job", func() error {
		r.reportEvery(ctx, interval, progress)
		return nil
	})
	report, err := r.Wait(ctx)
	cancel()
	if defect := <-reported; err == nil {
		err = defect
	}
	return report, err
}

func (r *Run) reportEvery(ctx context.Context, interval time.Duration, progress func(Report)) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		limited, cancel := context.WithTimeout(ctx, followLimit)
		report, err := r.Report(limited)
		cancel()
		if err == nil && !report.State.Final() && ctx.Err() == nil {
			progress(report)
		}
	}
}

// Unanswered reports whether an error says that nobody answered in time: no worker is there, or it is
// still starting.
func Unanswered(err error) bool {
	var late *serviceerror.DeadlineExceeded       // the server's patience may end a little before the caller's
	var unpolled *serviceerror.FailedPrecondition // no worker has polled lately
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) || errors.As(err, &unpolled)
}
