package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]time.Duration{1: 1, 2: 2, 3: 4, 6: 32, 7: 60, 900: 60} {
		require.Equal(t, want*time.Second, retryDelay(time.Second, tries))
	}
	require.Equal(t, time.Minute, retryDelay(time.Minute, 1))
}

// The rate that a slow-down lowers is of the time in which the leg was not paused.
func TestPause_IsNoTimeOfARate(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		d := &Dispatcher{ctx: ctx, batches: ctx, cancel: func() {}}
		d.rate.began = workflow.Now(ctx)
		for range 2 {
			for _, paused := range []bool{true, false} {
				_ = workflow.Sleep(ctx, 10*time.Second)
				d.rate.limits.Paused = paused
				d.pauseOrGoOn()
			}
		}
		require.Equal(t, 20*time.Second, workflow.Now(ctx).Sub(d.rate.began))
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
}
