package workflows

import (
	"fmt"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/sdk/workflow"
)

// manifestRecorder keeps accepted parts until a commit writes them to a manifest.
type manifestRecorder struct {
	spec job.Spec
	in   activities.CommitInput
}

func newManifestRecorder(in LegInput) *manifestRecorder {
	return &manifestRecorder{spec: in.Spec, in: activities.CommitInput{Ref: in.Ref, Leg: in.Number, Previous: in.Previous}}
}

// Accept is that of [dispatch.Recorder].
func (r *manifestRecorder) Accept(_ dispatch.Task, result activities.ProcessResult) {
	r.in.Entries = append(r.in.Entries, result.Entry)
}

// pending is what has been accepted and not committed.
func (r *manifestRecorder) pending() activities.CommitInput { return r.in }

// items is how many items have been accepted.
func (r *manifestRecorder) items() int64 {
	var n int64
	for _, e := range r.in.Entries {
		n += e.Count
	}
	return n
}

// commit writes the manifest, and returns the heads of the manifest chain: those before if nothing has been
// accepted, or after an error. It continues after a stop and after a cancellation.
func (r *manifestRecorder) commit(ctx workflow.Context) (heads []string, err error) {
	if len(r.in.Entries) == 0 {
		return r.in.Previous, nil
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = execute.IOOptions(ctx, r.spec, fmt.Sprintf("commit %d parts", len(r.in.Entries)))
	var committed activities.CommitResult
	if err := execute.IO(ctx, acts.Commit, r.in, &committed); err != nil {
		return r.in.Previous, err
	}
	return []string{committed.Manifest}, nil
}
