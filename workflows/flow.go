package workflows

import (
	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"go.temporal.io/sdk/workflow"
)

// flow takes the batches of a page through the stages of a pipeline. What a stage has accepted is a task of the next one, at
// once, and what the last one has accepted is recorded. Tasks of later stages go first, so what lies between two stages is
// never more than the leg's window, whichever stage is slow, and no stage waits for a place that only another one could free:
// each task that runs ends by itself.
type flow struct {
	ref      activities.Ref
	stages   []job.Stage
	page     *pageSupply
	manifest *manifestRecorder
	between  [][]dispatch.Task // tasks that wait, by stage; the first stage has none
}

func newFlow(in LegInput, page *pageSupply, manifest *manifestRecorder) *flow {
	return &flow{ref: in.Ref, stages: in.Spec.Stages, page: page, manifest: manifest, between: make([][]dispatch.Task, len(in.Spec.Stages))}
}

// stageOf is the index of the stage that a batch is for.
func stageOf(b protocol.Batch) int {
	if b.From == nil {
		return 0
	}
	return b.From.Stage
}

// Accept is that of [dispatch.Recorder].
func (f *flow) Accept(t dispatch.Task, r activities.ProcessResult) {
	if r.Parcel == nil {
		f.manifest.Accept(t, r)
		return
	}
	next := dispatch.Task{Batch: r.Entry.Batch, Number: t.Number, Stage: f.stages[r.Parcel.Stage].Name}
	next.From = r.Parcel
	f.between[r.Parcel.Stage] = append(f.between[r.Parcel.Stage], next)
}

// Next is that of [dispatch.Supply].
func (f *flow) Next() (dispatch.Task, bool) {
	for stage := len(f.between) - 1; stage > 0; stage-- {
		if waiting := f.between[stage]; len(waiting) > 0 {
			f.between[stage] = waiting[1:]
			return waiting[0], true
		}
	}
	t, ok := f.page.Next()
	t.Stage = f.stages[stageOf(t.Batch)].Name
	return t, ok
}

// Waiting is that of [dispatch.Supply].
func (f *flow) Waiting() int {
	n := f.page.Waiting()
	for _, waiting := range f.between {
		n += len(waiting)
	}
	return n
}

// Ended is that of [dispatch.Supply]: what runs may bring more.
func (f *flow) Ended() bool { return f.Waiting() == 0 && f.page.Ended() }

// items is how many items wait between two stages.
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

// between are the batches among tasks that have been through a stage.
func between(tasks []dispatch.Task) []protocol.Batch {
	var all []protocol.Batch
	for _, t := range tasks {
		if t.From != nil {
			all = append(all, t.Batch)
		}
	}
	return all
}

// process starts one execution in the pool of its stage.
func (f *flow) process(ctx workflow.Context, in activities.ProcessInput) workflow.Future {
	stage := stageOf(in.Batch)
	in.Ref = f.ref
	in.Stage = &protocol.Stage{Name: f.stages[stage].Name, Last: stage == len(f.stages)-1}
	return workflow.ExecuteActivity(workflow.WithTaskQueue(ctx, protocol.PoolQueue(f.stages[stage].Pool)), acts.Process, in)
}
