// Package lookup asks the server where batches run, by their last heartbeats, and what else it knows of workflows.
package lookup

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
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/singleflight"

	"github.com/stint-run/stint/internal/wire"
)

// Pollers returns who has polled one of the task queues for tasks of a kind within the last minutes, as the server saw
// them: each identity once, with its latest poll.
func Pollers(ctx context.Context, c client.Client, kind enums.TaskQueueType, queues ...string) ([]*taskqueue.PollerInfo, error) {
	var found []*taskqueue.PollerInfo
	for _, queue := range queues {
		resp, err := c.DescribeTaskQueue(ctx, queue, kind)
		if err != nil {
			return nil, err
		}
		for _, p := range resp.GetPollers() {
			same := func(q *taskqueue.PollerInfo) bool { return q.GetIdentity() == p.GetIdentity() && len(queues) > 1 }
			i := slices.IndexFunc(found, same)
			switch {
			case i < 0:
				found = append(found, p)
			case found[i].GetLastAccessTime().AsTime().Before(p.GetLastAccessTime().AsTime()):
				found[i] = p
			}
		}
	}
	return found, nil
}

// Places returns where the batches run that a workflow, a job or a leg, has dispatched, as their last heartbeats say.
// The converter is that of the client.
func Places(ctx context.Context, c client.Client, conv converter.DataConverter, workflowID, runID string) ([]wire.ActivitySlot, error) {
	desc, err := c.DescribeWorkflowExecution(ctx, workflowID, runID)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", workflowID, err)
	}
	var found []wire.ActivitySlot
	for _, a := range desc.GetPendingActivities() {
		if a.GetActivityType().GetName() != string(wire.ActivityProcess) || a.GetState() == enums.PENDING_ACTIVITY_STATE_SCHEDULED {
			continue
		}
		hint, _ := LastHint(a, conv)
		found = append(found, wire.ActivitySlot{Activity: a.GetActivityId(), SlotRef: hint.SlotRef, Clock: hint.Clock})
	}
	return found, nil
}

// Takers returns which workers took executions of a workflow, by its history, which has that of those that have ended.
func Takers(ctx context.Context, c client.Client, workflowID, runID string, activities []string) ([]wire.ActivitySlot, error) {
	scheduled := map[int64]string{} // activities by the events that have scheduled them
	var found []wire.ActivitySlot
	for events := c.GetWorkflowHistory(ctx, workflowID, runID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		e, err := events.Next()
		if err != nil {
			return nil, fmt.Errorf("reading the history of %s: %w", workflowID, err)
		}
		if id := e.GetActivityTaskScheduledEventAttributes().GetActivityId(); slices.Contains(activities, id) {
			scheduled[e.GetEventId()] = id
		}
		started := e.GetActivityTaskStartedEventAttributes()
		if id := scheduled[started.GetScheduledEventId()]; id != "" {
			of := wire.ParseIdentity(started.GetIdentity())
			found = append(found, wire.ActivitySlot{Activity: id, SlotRef: wire.SlotRef{Worker: of.Worker, Process: of.Process, PID: workerPID(of.Worker)}})
		}
	}
	return found, nil
}

// noticeLimit bounds the look-up of a stop's deadline: without it, the job's own grace counts.
const noticeLimit = 2 * time.Second

// FindStop finds in the memo of a workflow why its executions are cancelled: a stop, or a pause that has withdrawn them. It
// returns false if there is neither, or if the server does not answer within 2 s.
func FindStop(ctx context.Context, c client.Client, conv converter.DataConverter, workflowID, runID string) (wire.StopNotice, bool) {
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	desc, err := c.DescribeWorkflowExecution(ctx, workflowID, runID)
	if err != nil {
		return wire.StopNotice{}, false
	}
	if notice, ok := StopIn(desc, conv); ok {
		return notice, ok
	}
	withdrawn := desc.GetWorkflowExecutionInfo().GetMemo().GetFields()[wire.MemoWithdrawn] != nil
	return wire.StopNotice{Withdrawn: withdrawn}, withdrawn
}

// StopIn returns the stop in the memo of a workflow that the server has described; false if there is none.
func StopIn(desc *workflowservice.DescribeWorkflowExecutionResponse, conv converter.DataConverter) (wire.StopNotice, bool) {
	var n wire.StopNotice
	payload := desc.GetWorkflowExecutionInfo().GetMemo().GetFields()[wire.MemoStop]
	if payload == nil {
		return n, false
	}
	return n, conv.FromPayload(payload, &n) == nil
}

// StopFinder finds the stops that end executions of this process. A stop reaches all executions of a workflow at once;
// they share a look-up, because its answer names each activity of the workflow. Any goroutine may use it.
type StopFinder struct {
	Client    client.Client
	Converter converter.DataConverter // of the client

	flights singleflight.Group
}

// Find does what [FindStop] does, for an execution that has been cancelled. It takes no longer than twice as long.
func (f *StopFinder) Find(ctx context.Context, workflowID, runID string) (wire.StopNotice, bool) {
	notice, shared := f.look(ctx, workflowID, runID)
	if (notice == nil || notice.Withdrawn) && shared {
		// The look-up may have begun before the stop, for an execution that was cancelled for another reason.
		notice, _ = f.look(ctx, workflowID, runID)
	}
	if notice == nil {
		return wire.StopNotice{}, false
	}
	return *notice, true
}

// look asks for a stop, or waits for the answer if another execution has asked. It returns nil if there is no stop.
func (f *StopFinder) look(ctx context.Context, workflowID, runID string) (notice *wire.StopNotice, shared bool) {
	value, _, shared := f.flights.Do(workflowID+" "+runID, func() (any, error) {
		// Others wait for it, too, when this execution has ended.
		if n, ok := FindStop(context.WithoutCancel(ctx), f.Client, f.Converter, workflowID, runID); ok {
			return &n, nil
		}
		return (*wire.StopNotice)(nil), nil
	})
	return value.(*wire.StopNotice), shared
}

// LastHint returns what a batch's last heartbeat has said, and when it came. The worker is known
// without any.
func LastHint(a *workflow.PendingActivityInfo, c converter.DataConverter) (hint wire.Hint, beat time.Time) {
	if details := a.GetHeartbeatDetails(); details != nil {
		_ = c.FromPayloads(details, &hint) // another version's: the worker is known
		beat = a.GetLastHeartbeatTime().AsTime()
	}
	of := wire.ParseIdentity(a.GetLastWorkerIdentity())
	hint.Worker, hint.Process = cmp.Or(hint.Worker, of.Worker), cmp.Or(hint.Process, of.Process)
	hint.PID = cmp.Or(hint.PID, workerPID(hint.Worker))
	return hint, beat
}

// workerPID returns the process of a worker, read from its name: "host-pid". 0 if the name has none.
func workerPID(name string) int {
	pid, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// queryTries is how often a workflow is asked at most whose worker cannot replay its history.
const queryTries = 3

// Query asks a workflow, and sets what into points to to the answer. If the workflow has just left the cache of its
// worker, as one that ends does, the worker reads its whole history. If that has grown since the question was asked,
// the replay fails, although nothing is wrong (Go SDK 1.50, with TMPRL1100 in the message): the question is asked again
// then.
func Query(ctx context.Context, c client.Client, workflowID, runID, query string, into any, args ...any) error {
	for try := 1; ; try++ {
		value, err := c.QueryWorkflow(ctx, workflowID, runID, query, args...)
		if err == nil {
			return value.Get(into)
		}
		if try == queryTries || !errors.As(err, new(*serviceerror.QueryFailed)) || !strings.Contains(err.Error(), "TMPRL1100") {
			return err
		}
	}
}

// Away reports whether an error says that the server cannot be reached, or cannot answer now.
func Away(err error) bool {
	return errors.As(err, new(*serviceerror.Unavailable)) || errors.As(err, new(*serviceerror.DeadlineExceeded)) || errors.Is(err, context.DeadlineExceeded)
}
