// Package files has jobs that run a handler over the items of files: their pages are ranges of the inputs.
package files

import (
	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pages"
)

// fileWork runs a handler over the items of the spec's inputs.
type fileWork struct{ pages.Pager }

// New returns the work of a job that runs a handler over the items of its inputs.
func New(state *wire.WorkState) coordinate.Work {
	return &fileWork{pages.Pager{State: state, Plan: func(ctx workflow.Context, in wire.PlanInput) (wire.PlanResult, error) {
		return execute.IO(ctx, wire.ActivityPlan, in)
	}}}
}

// Begin is that of [coordinate.Work].
func (w *fileWork) Begin(c *coordinate.Coordinator) (coordinate.Traits, error) {
	w.C = c
	return coordinate.Traits{BoundsFailures: true, CountsAlone: true, ListFailures: w.listFailures}, nil
}

// CompleteReport is that of [coordinate.Work].
func (w *fileWork) CompleteReport(*job.Report) {}

func (w *fileWork) listFailures(ctx workflow.Context, t coordinate.Snapshot) (wire.FailuresResult, error) {
	in := wire.FailuresInput{Ref: t.Ref, Spec: t.Spec, Manifests: t.Heads}
	return execute.IO(ctx, wire.ActivityWriteFailures, in)
}
