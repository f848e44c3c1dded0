package worker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/limits"
)

// The server gives a free slot to the batch of the highest priority that waits in the pool's queue. But slots may be
// taken for long by batches of a large job. So a worker that has no free place asks now and then what waits there, and
// has as many of its batches of lower priorities return their rest, after the calls in hand, as others wait. It takes no
// batch for that: those that wait stay in the queue, for any worker.

const (
	// prioritiesEvery is how often it asks.
	prioritiesEvery = 2 * time.Second
	// prioritiesKnown is how long the server may give the same answer. What has made room since is not in it.
	prioritiesKnown = 5 * time.Second
	// prioritiesLimit is how long an answer may take.
	prioritiesLimit = 5 * time.Second
)

// backlog is how many batches wait in a queue, by priority.
type backlog map[int]int64

// above returns how many of them have a higher priority than that.
func (b backlog) above(priority int) (n int64) {
	for p, waiting := range b {
		if p < priority {
			n += waiting
		}
	}
	return n
}

// makeRoom has batches make room for others of higher priorities until ctx is done. waiting asks the server.
func (r *slotSet) makeRoom(ctx context.Context, waiting func(context.Context) (backlog, error)) {
	for wait := prioritiesEvery; backoff.Wait(wait, ctx.Done()); {
		wait = prioritiesEvery
		if r.wanted() > 0 || r.lowest() <= 1 {
			continue // what waits is taken anyway, or goes first by no means
		}
		limited, cancel := context.WithTimeout(ctx, prioritiesLimit)
		known, err := waiting(limited)
		cancel()
		if err == nil && r.yield(known) > 0 {
			wait = prioritiesKnown
		}
	}
}

// lowest returns the lowest priority, the highest number, of the batches in slots; 0: there are none.
func (r *slotSet) lowest() (priority int) {
	for _, t := range r.inSlots() {
		priority = max(priority, t.occupant.Priority)
	}
	return priority
}

// inSlots returns the batches that have a place and do not make room already, those of the lowest priority first, and the
// oldest of these. One that should be alone is not disturbed.
func (r *slotSet) inSlots() (all []*execution) {
	for _, s := range r.slots {
		s.mu.Lock()
		for t := range s.executions {
			if t.places > 0 && !t.yields && !t.occupant.Alone {
				all = append(all, t)
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b *execution) int {
		return cmp.Or(cmp.Compare(b.occupant.Priority, a.occupant.Priority), a.since.Compare(b.since))
	})
	return all
}

// yield has one batch make room for each one of a higher priority that waits, less those that make room already and have
// not left. It returns how many more do.
func (r *slotSet) yield(waiting backlog) (more int64) {
	already := r.yielding()
	for _, t := range r.inSlots() {
		if waiting.above(t.occupant.Priority) > already+more && t.makeRoom() {
			more++
		}
	}
	return more
}

// yielding returns how many batches make room, and have not left yet: calls in hand may take long.
func (r *slotSet) yielding() (n int64) {
	for _, s := range r.slots {
		s.mu.Lock()
		for t := range s.executions {
			if t.yields && !t.gone {
				n++
			}
		}
		s.mu.Unlock()
	}
	return n
}

// makeRoom has the execution return its rest. It returns false if it does so already.
func (t *execution) makeRoom() bool {
	t.slot.mu.Lock()
	defer t.slot.mu.Unlock()
	if t.yields {
		return false
	}
	t.yields = true
	close(t.yielding)
	return true
}

// Yield is closed when the execution should return its rest, because one of a higher priority waits.
func (t *execution) Yield() <-chan struct{} { return t.yielding }

// waiting asks the server which batches wait in the pool's queues.
func (w *Worker) waiting(ctx context.Context) (backlog, error) {
	known := backlog{}
	for _, queue := range w.queues {
		if err := w.addWaiting(ctx, queue.name, known); err != nil {
			return nil, err
		}
	}
	return known, nil
}

// addWaiting adds those of one queue.
func (w *Worker) addWaiting(ctx context.Context, queue string, known backlog) error {
	namespace, _ := w.inHand.namespace.Load().(string)
	resp, err := w.client.Temporal().WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: namespace, TaskQueue: &taskqueue.TaskQueue{Name: queue},
		TaskQueueType: enums.TASK_QUEUE_TYPE_ACTIVITY, ReportStats: true,
	})
	if err != nil {
		return err
	}
	for priority, stats := range resp.GetStatsByPriorityKey() {
		known[cmp.Or(int(priority), limits.DefaultPriority)] += stats.GetApproximateBacklogCount()
	}
	return nil
}
