package entry

import (
	"context"
	"errors"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// locked are values that a worker cannot read.
type locked struct{ converter.EncodedValues }

func (locked) Get(...any) error { return errors.New(`the key "b" is missing`) }

const says = `a worker cannot read its input; start all workers with the keys of the codec (--codec-key-file): the key "b" is missing`

func length(_ context.Context, in string) (int, error) { return len(in), nil }

func TestActivities(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	noted := ""
	all := Activities{}
	Offer(all, "Length", length)
	OfferAction(all, "Note", func(_ context.Context, in string) error { noted = in; return nil })
	all.Register(env)
	value, err := env.ExecuteActivity("Length", "four")
	require.NoError(t, err)
	var n int
	require.NoError(t, value.Get(&n))
	require.Equal(t, 4, n)
	_, err = env.ExecuteActivity("Note", "this")
	require.NoError(t, err)
	require.Equal(t, "this", noted)
	_, err = env.ExecuteActivity("Width", "four")
	require.ErrorContains(t, err, "Width is not an activity of stint on this queue")
}

// An activity whose input cannot be read is waited out.
func TestActivity_Unreadable(t *testing.T) {
	t.Parallel()
	all := Activities{}
	Offer(all, "Length", length)
	_, err := all["Length"](t.Context(), locked{})
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, job.ErrorOutage, app.Type())
	require.False(t, app.NonRetryable())
	require.Equal(t, says, app.Message())
}

func TestWorkflows(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	Workflows{"Length": Workflow(func(_ workflow.Context, in string) (int, error) { return len(in), nil })}.Register(env)
	env.ExecuteWorkflow("Length", "four")
	require.NoError(t, env.GetWorkflowError())
	var n int
	require.NoError(t, env.GetWorkflowResult(&n))
	require.Equal(t, 4, n)
}

// V1: a workflow of a version of the logic that the worker does not know panics.
func TestWorkflow_NewerLogic(t *testing.T) {
	t.Parallel()
	ran := 0
	fn := Workflow(func(workflow.Context, wire.JobInput) (int, error) { ran++; return 0, nil })
	_, err := fn(nil, given{wire.JobInput{StartInput: wire.StartInput{Version: wire.LogicVersion}}})
	require.NoError(t, err)
	require.Equal(t, 1, ran)
	require.PanicsWithValue(t, "needs stint ≥ 0.99: the worker has stint "+wire.Release(wire.LogicVersion), func() {
		_, _ = fn(nil, given{wire.JobInput{StartInput: wire.StartInput{Version: 99}}})
	})
	require.Equal(t, 1, ran)
}

// given is a value that a worker can read.
type given struct{ in wire.JobInput }

func (given) HasValues() bool { return true }
func (g given) Get(into ...any) error {
	*into[0].(*wire.JobInput) = g.in
	return nil
}

// A workflow whose input cannot be read panics, which fails its task, not the workflow.
func TestWorkflow_Unreadable(t *testing.T) {
	t.Parallel()
	fn := Workflow(func(workflow.Context, string) (int, error) { return 0, nil })
	require.PanicsWithError(t, says, func() { _, _ = fn(nil, locked{}) })
}
