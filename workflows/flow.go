package workflows

import (
	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/internal/stages"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"go.temporal.io/sdk/workflow"
)

// flow takes batches through the steps of a pipeline (see [stages.Program]). What a step has accepted is a task of the
// next one, at once, and what the last one has accepted is recorded. Tasks of later steps go first, so what lies between two steps is
// never more than the leg's window, whichever is slow, and no step waits for a place that only another one could free: each task that
// runs ends by itself.
type flow struct {
	ref      activities.Ref
	steps    stages.Program
	supply   dispatch.Supply   // of the first step
	recorder dispatch.Recorder // of what the last one has accepted
	between  [][]dispatch.Task // tasks that wait, by step; the first step has none
}

func newFlow(ref activities.Ref, spec job.Spec, supply dispatch.Supply, recorder dispatch.Recorder) *flow {
	steps := stages.Compile(spec.Stages)
	return &flow{ref: ref, steps: steps, supply: supply, recorder: recorder, between: make([][]dispatch.Task, len(steps))}
}

// stepOf is the index of the step that a batch is for.
func stepOf(b protocol.Batch) int {
	if b.From == nil {
		return 0
	}
	return b.From.Step
}

// Accept is that of [dispatch.Recorder].
func (f *flow) Accept(t dispatch.Task, r activities.ProcessResult) {
	if r.Written == nil {
		f.recorder.Accept(t, r)
		return
	}
	next := dispatch.Task{Batch: t.Batch, Number: t.Number}
	if r.Rest != nil {
		next.Count, next.Length = r.Rest.First-next.First, r.Rest.Offset-next.Offset
	}
	next.From = f.steps.Parcel(stepOf(t.Batch), t.From, f.ref.Run, *r.Written, r.Routed, r.Cuts)
	next.Stage = f.steps[next.From.Step].Name
	for _, b := range f.steps.Split(next.Batch) {
		next.Batch = b
		f.between[b.From.Step] = append(f.between[b.From.Step], next)
	}
}

// Next is that of [dispatch.Supply].
func (f *flow) Next() (dispatch.Task, bool) {
	for step := len(f.between) - 1; step > 0; step-- {
		if waiting := f.between[step]; len(waiting) > 0 {
			f.between[step] = waiting[1:]
			return waiting[0], true
		}
	}
	t, ok := f.supply.Next()
	if ok {
		t.Stage = f.steps[stepOf(t.Batch)].Name
	}
	return t, ok
}

// Waiting is that of [dispatch.Supply].
func (f *flow) Waiting() int {
	n := f.supply.Waiting()
	for _, waiting := range f.between {
		n += len(waiting)
	}
	return n
}

// Ended is that of [dispatch.Supply]: what runs may bring more.
func (f *flow) Ended() bool { return f.Waiting() == 0 && f.supply.Ended() }

// items is how many items wait between two steps.
func (f *flow) items() int64 {
	if f == nil {
		return 0
	}
	var n int64
	for _, waiting := range f.between {
		for _, t := range waiting {
			n += t.Count
		}
	}
	return n
}

// between are the batches among tasks that have been through a step.
func between(tasks []dispatch.Task) []protocol.Batch {
	var all []protocol.Batch
	for _, t := range tasks {
		if t.From != nil {
			all = append(all, t.Batch)
		}
	}
	return all
}

// process starts one execution in the pool of its step.
func (f *flow) process(ctx workflow.Context, in activities.ProcessInput) workflow.Future {
	step := &f.steps[stepOf(in.Batch)]
	in.Ref, in.Stage = f.ref, &step.Stage
	return workflow.ExecuteActivity(workflow.WithTaskQueue(ctx, protocol.PoolQueue(step.Pool)), acts.Process, in)
}
