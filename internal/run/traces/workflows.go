package traces

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

var serviceName = attribute.String("service.name", "stint")

// Attributes of spans.
const (
	keyJob      = attribute.Key("stint.job")
	keyRun      = attribute.Key("stint.run")
	keyPool     = attribute.Key("stint.pool")
	keyWorker   = attribute.Key("stint.worker")
	keyStage    = attribute.Key("stint.stage")
	keyBatch    = attribute.Key("stint.batch")
	keyTry      = attribute.Key("stint.execution")
	keyFirst    = attribute.Key("stint.first_item")
	keyItems    = attribute.Key("stint.items")
	keyFailed   = attribute.Key("stint.failed")
	keyCalls    = attribute.Key("stint.calls")
	keyFault    = attribute.Key("stint.fault")
	keyCut      = attribute.Key("stint.cut")
	keyWorkflow = attribute.Key("temporal.workflow_id")
)

// Workflow is a run of a job's or a leg's workflow that has ended.
type Workflow struct {
	Info *workflow.Info
	// Job and Run are the job's name, and the first run ID of its chain.
	Job, Run string
	Ended    time.Time
	Err      error // that it ended with; a continuation is one
}

// Workflow makes the span of a run of a workflow. Of one that continues as new, the next run's span is a child.
func (t *Tracer) Workflow(w Workflow) {
	if t == nil {
		return
	}
	name, ctx := "job", context.Background()
	switch {
	case w.Info.FirstRunID != w.Info.WorkflowExecution.RunID:
		ctx = trace.ContextWithRemoteSpanContext(ctx, contextOf(w.Run, w.Info.FirstRunID))
	case w.Info.ParentWorkflowExecution != nil:
		ctx = trace.ContextWithRemoteSpanContext(ctx, contextOf(w.Run, w.Info.ParentWorkflowExecution.RunID))
	}
	if w.Info.ParentWorkflowExecution != nil {
		name = "leg"
	}
	_, span := t.tracer.Start(choosing(ctx, w.Run, w.Info.WorkflowExecution.RunID), name, trace.WithTimestamp(w.Info.WorkflowStartTime),
		trace.WithAttributes(keyJob.String(w.Job), keyRun.String(w.Run), keyWorkflow.String(w.Info.WorkflowExecution.ID)))
	if continued := new(workflow.ContinueAsNewError); w.Err != nil && !errors.As(w.Err, &continued) {
		span.SetStatus(codes.Error, kindOf(w.Err))
	}
	span.End(trace.WithTimestamp(w.Ended))
}

// kindOf names an error without its message, which may quote items.
func kindOf(err error) string {
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.Type() != "" {
		return app.Type()
	}
	return fmt.Sprintf("%T", err)
}
