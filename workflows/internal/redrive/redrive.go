// Package redrive has jobs that run the failed items of a completed job again.
package redrive

import (
	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pages"
)

// redriveWork runs the failed items of a completed job again, and merges their outcomes into its output. It does not
// bound failures, since it cannot make more items fail than have failed already, and writes no errors file: that is
// still the one of the completed job.
type redriveWork struct {
	pages.Pager
	of job.Redrive
}

// New returns the work of a redrive.
func New(of job.Redrive, state *wire.WorkState) coordinate.Work {
	plan := func(ctx workflow.Context, in wire.PlanInput) (wire.PlanResult, error) {
		return execute.IO(ctx, wire.ActivityPlanRedrive, wire.PlanRedriveInput{PlanInput: in, Redrive: of})
	}
	return &redriveWork{Pager: pages.Pager{State: state, Plan: plan}, of: of}
}

// Finish makes the report that of the whole job.
func (w *redriveWork) Finish(ctx workflow.Context, t coordinate.Snapshot, r *job.Report) error {
	in := wire.FinishRedriveInput{
		FinishInput: wire.FinishInput{Ref: t.Ref, Spec: t.Spec, Manifests: t.Heads, Planned: t.Planned}, Redrive: w.of,
	}
	result, err := execute.IO(ctx, wire.ActivityFinishRedrive, in)
	if err != nil {
		return err
	}
	r.Output, r.Failures = &result.Output, result.Failures
	r.Redriven = result.Redriven
	r.Planned, r.OK, r.Failed, r.Dropped = result.Books.Items, result.Books.OK, result.Books.Failed, result.Books.Dropped
	r.Lines, r.Equal = result.Books.Lines, result.Books.Equal
	r.FirstError = result.FirstError
	r.Manifests = result.Manifests
	return nil
}

// CompleteReport adds how to continue the redrive. The job's output and manifests are still those before it.
func (w *redriveWork) CompleteReport(r *job.Report) {
	redrive, output := w.of, w.of.Output
	redrive.Done = r.Manifests
	r.Redrive, r.Output, r.Manifests = &redrive, &output, redrive.Manifests
}
