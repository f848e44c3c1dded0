package jobs

import (
	"fmt"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/mocks"
)

// A resumed job knows the runs before it, also those that have committed nothing.
func TestClient_ResumePassesEarlierRunsOn(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, wire.StartInput{Spec: valid(), Earlier: []string{"run-1"}, Root: "run-0"}, job.Stopped)
	endedWith(tc, job.Report{Job: "nightly", Run: "run-2", State: job.Stopped})
	handle := &mocks.WorkflowRun{}
	handle.On("GetRunID").Return("run-3")
	want := wire.StartInput{Spec: valid(), Earlier: []string{"run-1", "run-2"}, Root: "run-0", Version: wire.LogicVersion}
	tc.On("ExecuteWorkflow", mock.Anything, mock.Anything, wire.WorkflowJob, want).Return(handle, nil)
	_, err := c.Resume(t.Context(), "nightly", ResumeOptions{})
	require.NoError(t, err)
	runs, err := c.EarlierRuns(t.Context(), job.Report{Job: "nightly", Run: "run-2"})
	require.NoError(t, err)
	require.Equal(t, want.Earlier, runs)
	root, err := c.RootRun(t.Context(), job.Report{Job: "nightly", Run: "run-2"})
	require.NoError(t, err)
	require.Equal(t, "run-0", root)
}

func TestInput_RootRun(t *testing.T) {
	t.Parallel()
	in := wire.StartInput{Spec: valid()}
	require.Equal(t, "run-1", rootRun(&in, job.Report{Run: "run-1"}))
	in.Root = "run-0"
	require.Equal(t, "run-0", rootRun(&in, job.Report{Run: "run-1"}))
	nothingWorked := job.Report{Run: "run-1", Error: &job.Error{Type: job.ErrorHopeless}}
	require.Empty(t, rootRun(&in, nothingWorked), "its items run again, and a server may have kept what it answered")
	in.Spec = job.Spec{Feed: &job.Feed{}}
	require.Equal(t, "run-0", rootRun(&in, nothingWorked), "a feed's clients have the outcomes")
}

func TestInput_EarlierRuns(t *testing.T) {
	t.Parallel()
	runs := func(in wire.StartInput, run string) []string { return earlierRuns(&in, job.Report{Run: run}) }
	before := []string{"run-1"}
	require.Empty(t, runs(wire.StartInput{Spec: valid()}, ""), "the run is not known: it has done nothing")
	require.Equal(t, before, runs(wire.StartInput{Spec: valid(), Earlier: before}, "run-1"))
	require.Nil(t, runs(wire.StartInput{Spec: valid(), Redrive: &job.Redrive{}}, "run-2"), "a redrive has a list of its own")
	for _, spec := range []job.Spec{{Feed: &job.Feed{}}, {Loop: &job.Loop{}}} {
		require.Nil(t, runs(wire.StartInput{Spec: spec}, "run-2"))
	}
	in := wire.StartInput{Spec: valid()}
	for i := range 2 * maxEarlier {
		in.Earlier = runs(in, fmt.Sprint("run-", i))
	}
	require.Len(t, in.Earlier, maxEarlier)
	require.Equal(t, fmt.Sprint("run-", 2*maxEarlier-1), in.Earlier[maxEarlier-1])
}
