package worker

import (
	"github.com/stint-run/stint/internal/run/traces"
	"github.com/stint-run/stint/internal/temporal/entry"
	"github.com/stint-run/stint/internal/wire"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
)

// traceWorkflow returns what makes the span of a workflow that has ended; nil if nobody traces. It takes no part in what
// the workflow does.
func (o Options) traceWorkflow() entry.Watcher {
	if o.tracer == nil {
		return nil
	}
	return func(ctx workflow.Context, args converter.EncodedValues, err error) {
		info := workflow.GetInfo(ctx)
		ended := traces.Workflow{Info: info, Job: info.WorkflowExecution.ID, Run: info.FirstRunID, Ended: workflow.Now(ctx), Err: err}
		if info.ParentWorkflowExecution != nil { // it is a leg, whose input has the job's run
			var in struct {
				Ref wire.Ref `json:"ref"`
			}
			if args.Get(&in) != nil {
				return
			}
			ended.Job, ended.Run = in.Ref.Job, in.Ref.Run
		}
		o.tracer.Workflow(ended)
	}
}
