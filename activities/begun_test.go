package activities

import (
	"context"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// A batch whose last request has been begun says so once, while it waits for the answer: its share of the limits is of
// use to another one.
func TestProcess_TellsThatAllIsBegun(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	f.spec.BatchItems = 10
	batch := f.plan()[0]
	require.EqualValues(t, 10, batch.Count)
	told := make(chan any, 10)
	f.serve(&callstest.Handler{Size: calls.CallSize{Items: 1}, Each: func(c *calls.Call, item calls.Item) {
		if item.Ordinal == 9 {
			select {
			case arg := <-told:
				told <- arg
			case <-time.After(10 * time.Minute):
				t.Error("nobody has been told")
			}
		}
		c.Answer.Line(item.Data)
	}}, Options{Signal: func(_ context.Context, _, _, name string, arg any) error {
		require.Equal(t, wire.SignalBegun, name)
		told <- arg
		return nil
	}})
	in := f.input(batch)
	in.Share = &wire.Share{Requests: 60_000_000}
	suite := &testsuite.WorkflowTestSuite{}
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterActivity(f.acts.Process)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{ActivityID: "batch-1.1", StartToCloseTimeout: time.Hour, HeartbeatTimeout: time.Second})
		return workflow.ExecuteActivity(ctx, f.acts.Process, in).Get(ctx, nil)
	})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, told, 1)
	begun := (<-told).(wire.Begun)
	require.Equal(t, "batch-1.1", begun.Activity)
}

// H3: What an execution has used is in its result, also if it has a rest, and in the error if it fails.
func TestProcess_SaysWhatItHasUsed(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	f.spec.BatchItems = 10
	batch := f.plan()[0]
	require.EqualValues(t, 10, batch.Count)
	spend := func(c *calls.Call, item calls.Item) {
		c.Spend(job.Usage{TokensIn: 3, Cost: 2})
		c.Answer.Line(item.Data)
	}
	f.serve(&callstest.Handler{Size: calls.CallSize{Items: 1}, Each: spend}, Options{})
	in := f.input(batch)
	result, err := f.acts.Process(context.Background(), in)
	require.NoError(t, err)
	require.Equal(t, job.Usage{TokensIn: 30, Cost: 20}, result.Totals.Usage)

	in.Share = &wire.Share{Tokens: 10}
	result, err = f.acts.Process(context.Background(), in)
	require.NoError(t, err)
	require.EqualValues(t, 4, result.Entry.Count, "with the fourth the share is used up")
	require.EqualValues(t, 6, result.Rest.Count)
	require.Equal(t, job.Usage{TokensIn: 12, Cost: 8}, result.Totals.Usage)
}
