package workflows

import (
	"github.com/stint-run/stint/internal/protocol"
	"go.temporal.io/sdk/workflow"
)

// scheduled makes the input of a job that a schedule has started, which is the same at every tick,
// that of this one: named as the server has named it, with the tick's time in its locations. Other
// inputs stay as they are.
func scheduled(ctx workflow.Context, in JobInput) JobInput {
	if !in.Scheduled {
		return in
	}
	output := in.Spec.Output
	in.Scheduled = false // the runs after this one have it in their input
	in.Spec = in.Spec.Ticked(workflow.GetInfo(ctx).WorkflowExecution.ID)
	if in.Spec.Output != output {
		if err := workflow.UpsertMemo(ctx, map[string]any{protocol.MemoOutput: in.Spec.Output}); err != nil {
			workflow.GetLogger(ctx).Error("writing where the output goes", "error", err)
		}
	}
	return in
}
