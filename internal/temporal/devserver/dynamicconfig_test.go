package devserver

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.temporal.io/server/common/dynamicconfig"
)

const queue = "queue"

// work starts a worker for the test's workflows and activities.
func work(t *testing.T, c client.Client, activities any) {
	t.Helper()
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflow(greet)
	w.RegisterWorkflow(cancelSoon)
	w.RegisterWorkflow(cancelBeating)
	w.RegisterActivity(activities)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}

type greeter struct {
	started   chan struct{}
	cancelled chan struct{}
	beat      chan struct{}
}

func (*greeter) Greet(_ context.Context, name string) (string, error) { return "hello " + name, nil }

// Wait ends when it is cancelled. It sends no heartbeat.
func (g *greeter) Wait(ctx context.Context) error {
	close(g.started)
	<-ctx.Done()
	close(g.cancelled)
	return ctx.Err()
}

func greet(ctx workflow.Context, name string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: patience})
	var g *greeter
	var answer string
	err := workflow.ExecuteActivity(ctx, g.Greet, name).Get(ctx, &answer)
	return answer, err
}

func cancelSoon(ctx workflow.Context) error {
	var g *greeter
	return untilCancelled(ctx, g.Wait)
}

func cancelBeating(ctx workflow.Context) error {
	var g *greeter
	return untilCancelled(ctx, g.Beat)
}

func untilCancelled(ctx workflow.Context, activity any) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * patience,
		WaitForCancellation: true,
	})
	return workflow.ExecuteActivity(ctx, activity).Get(ctx, nil)
}

// A value that the server cannot use is ignored by it, with a warning at most.
func TestDynamicConfigIsUnderstood(t *testing.T) {
	t.Parallel()
	for _, push := range []bool{true, false} {
		for key, value := range dynamicConfig(push) {
			file := fmt.Sprintf("%s:\n- value: %v\n", key, value)
			loaded := dynamicconfig.LoadYamlFile([]byte(file))
			require.NoError(t, loaded.Err(), file)
			require.Empty(t, loaded.Warnings, file)
		}
	}
}

// Without worker commands an activity that sends no heartbeat never gets its
// cancellation, and the test runs out of patience.
func TestCancellationNeedsNoHeartbeat(t *testing.T) {
	t.Parallel()
	c := dial(t, setup(t, Options{}))
	g := &greeter{started: make(chan struct{}), cancelled: make(chan struct{})}
	work(t, c, g)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: queue}, cancelSoon)
	require.NoError(t, err)
	ctx := contextWithPatience(t)
	waitFor(t, ctx, g.started)
	require.NoError(t, c.CancelWorkflow(ctx, run.GetID(), ""))
	waitFor(t, ctx, g.cancelled)
	require.ErrorAs(t, run.Get(ctx, nil), new(*temporal.CanceledError))
}

// Beat ends when it is cancelled. Once it is asked to, it sends a heartbeat.
func (g *greeter) Beat(ctx context.Context) error {
	close(g.started)
	select {
	case <-g.beat:
		activity.RecordHeartbeat(ctx)
	case <-ctx.Done():
	}
	<-ctx.Done()
	close(g.cancelled)
	return ctx.Err()
}

func TestWithoutPushACancellationNeedsAHeartbeat(t *testing.T) {
	t.Parallel()
	c := dial(t, setup(t, Options{NoPush: true}))
	g := &greeter{started: make(chan struct{}), cancelled: make(chan struct{}), beat: make(chan struct{})}
	work(t, c, g)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: queue}, cancelBeating)
	require.NoError(t, err)
	ctx := contextWithPatience(t)
	waitFor(t, ctx, g.started)
	require.NoError(t, c.CancelWorkflow(ctx, run.GetID(), ""))
	require.Eventually(t, func() bool {
		desc, err := c.DescribeWorkflowExecution(ctx, run.GetID(), "")
		pending := desc.GetPendingActivities()
		return err == nil && len(pending) == 1 && pending[0].GetState() == enums.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED
	}, patience, 10*time.Millisecond)
	for range 10 { // far more than a push would take
		greeting, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: queue}, greet, "world")
		require.NoError(t, err)
		require.NoError(t, greeting.Get(ctx, nil))
	}
	select {
	case <-g.cancelled:
		require.Fail(t, "it got the cancellation")
	default:
	}
	close(g.beat)
	waitFor(t, ctx, g.cancelled)
	require.ErrorAs(t, run.Get(ctx, nil), new(*temporal.CanceledError))
}

func waitFor(t *testing.T, ctx context.Context, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-ctx.Done():
		require.FailNow(t, "waited in vain")
	}
}
