package workflows

import (
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/sdk/workflow"
)

// redriveWork runs the failed items of a completed job again, and merges their outcomes into its output.
type redriveWork struct {
	pager
	of job.Redrive
}

func newRedriveWork(of job.Redrive, state *wire.WorkState) *redriveWork {
	plan := func(ctx workflow.Context, in wire.PlanInput) (wire.PlanResult, error) {
		return execute.IO(ctx, wire.ActivityPlanRedrive, wire.PlanRedriveInput{PlanInput: in, Redrive: of})
	}
	return &redriveWork{pager: pager{state: state, plan: plan}, of: of}
}

// finish makes the report that of the whole job.
func (w *redriveWork) finish(ctx workflow.Context, t terms, r *job.Report) error {
	in := wire.FinishRedriveInput{
		FinishInput: wire.FinishInput{Ref: t.ref, Spec: t.spec, Manifests: t.heads, Planned: t.planned}, Redrive: w.of,
	}
	result, err := execute.IO(ctx, wire.ActivityFinishRedrive, in)
	if err != nil {
		return err
	}
	r.Output = &result.Output
	r.Redriven = result.Redriven
	r.Planned, r.OK, r.Failed, r.Dropped = result.Books.Items, result.Books.OK, result.Books.Failed, result.Books.Dropped
	r.Lines = result.Books.Lines
	r.FirstError = result.FirstError
	r.Manifests = result.Manifests
	return nil
}

// amend adds how to continue the redrive. The job's output and manifests are still those before it.
func (w *redriveWork) amend(r *job.Report) {
	redrive, output := w.of, w.of.Output
	redrive.Done = r.Manifests
	r.Redrive, r.Output, r.Manifests = &redrive, &output, redrive.Manifests
}

// boundsFailures is false: a redrive cannot make more items fail than have failed already.
func (w *redriveWork) boundsFailures() bool { return false }

// listFailures does nothing: the errors file is still that of the completed job.
func (w *redriveWork) listFailures(workflow.Context, terms) (string, error) { return "", nil }
