package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
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

// A batch of a stage without requests has limits also while others hold none, because they started before there were any.
func TestShareRates_BesideBatchesWithoutLimits(t *testing.T) {
	t.Parallel()
	d := &Dispatcher{flying: []*task{{}}}
	d.rate.limits.Requests, d.rate.limits.Tokens = 600_000, 600_000
	d.rate.turnless = map[string]bool{"save": true}
	s := &wire.Share{}
	require.False(t, d.shareRates(s))
	d.takeTurn(s, "save")
	require.EqualValues(t, 1, s.Requests)
	require.EqualValues(t, 1, s.TokenRate)
}
