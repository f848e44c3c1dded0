package workflows

import (
	"testing"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
)

// child is a leg's workflow of which nothing is known but whether it has begun.
type child struct {
	workflow.ChildWorkflowFuture
	begun begun
}

func (c child) GetChildWorkflowExecution() workflow.Future { return c.begun }

type begun struct {
	workflow.Future
	ready bool
}

func (b begun) IsReady() bool { return b.ready }

// S12: if Temporal ends a job that has just given its manifests to a leg which has not begun, they
// are not lost, and no leg of the same number of an earlier run is taken for it.
func TestPending_LegThatHasNotBegun(t *testing.T) {
	t.Parallel()
	leg := func(number int, ready bool, previous ...string) *openLeg {
		return &openLeg{number: number, legHandle: &childLeg{
			in: LegInput{State: dispatch.State{Number: number}, Previous: previous, Spec: job.Spec{Name: "nightly"}}, child: child{begun: begun{ready: ready}},
		}}
	}
	c := &coordinator{legs: []*openLeg{leg(1, true, "m-1"), leg(2, false, "m-2", "m-3")}}
	pending, err := c.pending()
	require.NoError(t, err)
	require.Equal(t, []any{activities.CommitInput{Leg: 2, Previous: []string{"m-2", "m-3"}}}, pending, "the first leg is asked itself")
	var report job.Report
	for _, l := range c.legs {
		l.addTo(&report)
	}
	require.Equal(t, []string{"nightly/leg-1"}, report.OpenLegs)
}

// S12: what Temporal's end of a job has cut off before it was committed is committed by the next run.
func TestJob_Salvages(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.manifests["old"] = activities.CommitInput{Entries: []activities.Entry{{Batch: batch(0, 100), OK: 100}}}
	w.manifests["older"] = activities.CommitInput{Entries: []activities.Entry{{Batch: batch(100, 100), OK: 100}}}
	ref := activities.Ref{Job: w.spec.Name, Run: "earlier", Store: w.spec.Store, Sources: "sources"}
	w.resume = []string{"old"}
	w.salvage = []activities.CommitInput{
		{Ref: ref, Leg: 3, Previous: []string{"older"}},
		{Ref: ref, Leg: 4, Entries: []activities.Entry{{Batch: batch(500, 50), OK: 50}}},
	}
	report := w.mustRun()
	require.EqualValues(t, 1000, report.OK)
	require.EqualValues(t, 250, report.Resumed)
	require.Zero(t, report.Salvage)
	require.Equal(t, "earlier", w.commits[0].Ref.Run)
	require.Len(t, w.all, 75)
}

// A job that cannot salvage begins nothing, and what earlier runs have committed is still known to it.
func TestJob_SalvageFails(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.spec.Init = []string{"prepare"}
	w.manifests["old"] = activities.CommitInput{Entries: []activities.Entry{{Batch: batch(0, 100), OK: 100}}}
	w.manifests["older"] = activities.CommitInput{Entries: []activities.Entry{{Batch: batch(100, 100), OK: 100}}}
	w.resume = []string{"old"}
	w.salvage = []activities.CommitInput{
		{Leg: 3, Entries: []activities.Entry{{Batch: batch(500, 50), OK: 50}}},
		{Leg: 4, Previous: []string{"older"}, Entries: []activities.Entry{{Batch: batch(600, 50), OK: 50}}},
	}
	w.commit = func(activities.CommitInput) error { return permanentError(job.ErrorOutput) }
	_, err := w.run()
	report := w.failedReport(err, job.ErrorOutput)
	require.Empty(t, w.hooks)
	require.Empty(t, w.all)
	require.Equal(t, []string{"old", "older"}, report.Manifests)
	require.Equal(t, 2, report.Salvage, "the next run commits both")
}
