package dispatch_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// A leg whose batches come by updates while it runs. It has its own supply, recorder and execution, and nothing of the
// legs of pages.

// putSupply supplies what was put.
type putSupply struct {
	waiting []wire.Task
	put     int64 // batches
	items   int64
	closed  bool
}

func (s *putSupply) Next() (wire.Task, bool) {
	if len(s.waiting) == 0 {
		return wire.Task{}, false
	}
	t := s.waiting[0]
	s.waiting = s.waiting[1:]
	return t, true
}

func (s *putSupply) Waiting() int { return len(s.waiting) }

func (s *putSupply) Ended() bool { return s.closed && len(s.waiting) == 0 }

func (s *putSupply) add(items int64) wire.Batch {
	b := wire.Batch{First: s.items, Count: items}.Sealed()
	s.put++
	s.items += items
	s.waiting = append(s.waiting, wire.Task{Batch: b, Number: s.put})
	return b
}

// answers keeps what was accepted, by ordinal.
type answers map[int64]wire.ProcessResult

func (a answers) Accept(_ wire.Task, r wire.ProcessResult) {
	for i := range r.Entry.Count {
		a[r.Entry.First+i] = r
	}
}

const queueOfLeg = "of-the-leg"

// putLeg runs until it is closed.
func putLeg(ctx workflow.Context, spec job.Spec) (wire.LegOutcomes, error) {
	supply, recorded := &putSupply{}, answers{}
	d := dispatch.New(ctx, dispatch.Config{
		Spec: spec, State: wire.LegState{Number: 1, Window: spec.Window, Last: true}, Supply: supply, Recorder: recorded,
		Process: func(ctx workflow.Context, in wire.ProcessInput) workflow.Future {
			in.Ref.Job = "completed"
			return workflow.ExecuteActivity(workflow.WithTaskQueue(ctx, queueOfLeg), "Process", in)
		},
		Link: dispatch.NewParentLink(ctx, "run", 1, func() {}),
	})
	put := func(ctx workflow.Context, items int64) (string, error) {
		b := supply.add(items)
		d.Wake()
		done := func() bool {
			for i := range b.Count {
				if _, ok := recorded[b.First+i]; !ok {
					return false
				}
			}
			return true
		}
		err := workflow.Await(ctx, done)
		return recorded[b.First].Worker, err
	}
	if err := workflow.SetUpdateHandler(ctx, "put", put); err != nil {
		return wire.LegOutcomes{}, err
	}
	closing := func(workflow.Context) error {
		supply.closed = true
		d.Wake()
		return nil
	}
	if err := workflow.SetUpdateHandler(ctx, "close", closing); err != nil {
		return wire.LegOutcomes{}, err
	}
	d.Listen()
	d.Run(ctx)
	err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
	return d.Sofar(), err
}

// A leg of another kind needs nothing but what this package exports: batches come at any time, and while others run;
// the recorder gets whole results, of rests, too; the input and the options of an execution are the leg's.
func TestDispatcher_OfAnotherKindOfLeg(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(5 * time.Second)
	var mu sync.Mutex
	var queues []string
	env.RegisterActivityWithOptions(func(ctx context.Context, in wire.ProcessInput) (wire.ProcessResult, error) {
		mu.Lock()
		queues = append(queues, activity.GetInfo(ctx).TaskQueue)
		mu.Unlock()
		require.Equal(t, "completed", in.Ref.Job)
		r := wire.ProcessResult{Worker: "host-1"}
		done := min(2, in.Batch.Count)
		r.Entry.Batch, r.Entry.OK = in.Batch.Upto(done, 0), done
		r.Totals = job.Totals{OK: done, Batches: 1}
		if done < in.Batch.Count {
			rest := in.Batch.After(done, 0)
			r.Rest = &rest
		}
		return r, nil
	}, activity.RegisterOptions{Name: "Process"})
	env.RegisterWorkflow(putLeg)
	answered := 0
	complete := func(worker any, err error) {
		require.NoError(t, err)
		require.Equal(t, "host-1", worker)
		answered++
	}
	callback := func(complete func(any, error)) *testsuite.TestUpdateCallback {
		return &testsuite.TestUpdateCallback{OnAccept: func() {}, OnReject: func(err error) { t.Error(err) }, OnComplete: complete}
	}
	env.RegisterDelayedCallback(func() {
		env.UpdateWorkflow("put", "1", callback(complete), int64(5))
		env.UpdateWorkflow("put", "2", callback(complete), int64(1))
	}, time.Minute)
	env.RegisterDelayedCallback(func() {
		require.Equal(t, 2, answered, "nothing waits for what comes later")
		env.UpdateWorkflow("put", "3", callback(complete), int64(2))
	}, time.Hour)
	env.RegisterDelayedCallback(func() {
		env.UpdateWorkflow("close", "4", callback(func(_ any, err error) { require.NoError(t, err) }))
	}, 2*time.Hour)

	env.ExecuteWorkflow(putLeg, job.Spec{Name: "risk", Pool: "risk", Window: 2}.WithDefaults())
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	var got wire.LegOutcomes
	require.NoError(t, env.GetWorkflowResult(&got))
	require.Equal(t, 3, answered)
	require.EqualValues(t, 8, got.Totals.OK)
	require.Equal(t, []string{queueOfLeg, queueOfLeg, queueOfLeg, queueOfLeg, queueOfLeg}, queues, "five items are three executions")
}
