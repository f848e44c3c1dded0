package pages

import (
	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/stagewindow"
	"go.temporal.io/sdk/workflow"
)

// Flow takes batches through the steps of a pipeline (see [pipeline.Program]). What a step has accepted is a task of
// the next one, at once, and what the last one has accepted is recorded. Tasks of later steps go first, within the
// windows of their stages (see [stagewindow.Gate]), and no step waits for a place that only another one could free:
// each task that runs ends by itself.
type Flow struct {
	ref      wire.Ref
	pin      string // the version of the handler that all batches need; empty: any
	Steps    pipeline.Program
	supply   firstSupply       // of new batches, and of those that an earlier run has left between two steps
	recorder dispatch.Recorder // of what the last one has accepted
	between  [][]wire.Task     // tasks that wait, by step; the first step has none
	gate     *stagewindow.Gate
	Inlined  int // bytes that parts which are not in the store take in the leg's history: see inlineBytes
}

// NewFlow returns the flow of a pipeline, whose new batches come from supply, and whose results go to recorder.
func NewFlow(ref wire.Ref, spec job.Spec, supply firstSupply, recorder dispatch.Recorder) *Flow {
	steps := pipeline.Compile(spec.Stages)
	f := &Flow{ref: ref, pin: spec.Pin, Steps: steps, supply: supply, recorder: recorder, between: make([][]wire.Task, len(steps))}
	names := make([]string, len(steps))
	for i := range steps {
		names[i] = steps[i].Name
	}
	f.gate = stagewindow.New(names, func(step int) int { return len(f.between[step]) })
	return f
}

// Configure has a dispatcher take its tasks from the flow.
func (f *Flow) Configure(c *dispatch.Config) {
	c.Supply, c.Recorder, c.Gate, c.Queued = f, f, f.gate, f.queued
	if c.Sofar.Stages == nil {
		c.Sofar.Stages = c.Spec.StageReports()
	}
}

// queued returns how many tasks wait for each stage.
func (f *Flow) queued() map[string]int {
	n := map[string]int{}
	for step, waiting := range f.between {
		n[f.Steps[step].Name] += len(waiting)
	}
	f.supply.Count(func(b wire.Batch, batches int) { n[f.Steps[StepOf(b)].Name] += batches })
	return n
}

// firstSupply is where a flow's batches come from.
type firstSupply interface {
	dispatch.Supply
	// Peek returns the batch that Next would return, without its ordinals if they are not known yet.
	Peek() (wire.Batch, bool)
	// Count calls yield with batches that wait and how many are like them.
	Count(yield func(b wire.Batch, batches int))
}

// StepOf returns the index of the step that a batch is for.
func StepOf(b wire.Batch) int {
	if b.From == nil {
		return 0
	}
	return b.From.Step
}

// Accept is that of [dispatch.Recorder].
func (f *Flow) Accept(t wire.Task, r wire.ProcessResult) {
	if r.Written == nil {
		f.recorder.Accept(t, r)
		return
	}
	if r.Written.Inline != nil {
		f.Inlined += r.Written.Inline.Size() * f.Copies(t.Batch)
	}
	for _, b := range f.Steps.Advance(t.Batch, r.Rest, f.ref.Run, *r.Written, r.Routed, r.Cuts) {
		next := wire.Task{Batch: b, Number: t.Number, Stage: f.Steps[b.From.Step].Name}
		f.between[b.From.Step] = append(f.between[b.From.Step], next)
	}
}

// Next is that of [dispatch.Supply].
func (f *Flow) Next() (wire.Task, bool) {
	for step := len(f.between) - 1; step > 0; step-- {
		if waiting := f.between[step]; len(waiting) > 0 && f.gate.Free(step) {
			f.between[step] = waiting[1:]
			return waiting[0], true
		}
	}
	// What an earlier run of the job has left is on the page, at the step that it had reached.
	if waiting, ok := f.supply.Peek(); !ok || !f.gate.Free(StepOf(waiting)) {
		return wire.Task{}, false
	}
	t, ok := f.supply.Next()
	if ok {
		t.Stage = f.Steps[StepOf(t.Batch)].Name
	}
	return t, ok
}

// Waiting is that of [dispatch.Supply].
func (f *Flow) Waiting() int {
	n := f.supply.Waiting()
	for _, waiting := range f.between {
		n += len(waiting)
	}
	return n
}

// Ended is that of [dispatch.Supply]: what runs may bring more.
func (f *Flow) Ended() bool { return f.Waiting() == 0 && f.supply.Ended() }

// items returns how many items wait between two steps.
func (f *Flow) items() int64 {
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

// between returns the batches among tasks that have been through a step. Damaged ones are left out: their items are cut
// anew.
func between(tasks []wire.Task) []wire.Batch {
	var all []wire.Batch
	for _, t := range tasks {
		if t.From != nil && t.Verify() == nil {
			all = append(all, t.Batch)
		}
	}
	return all
}

// PassesOn reports whether later steps read what the step of a batch writes. A nil flow has none.
func (f *Flow) PassesOn(b wire.Batch) bool { return f != nil && !f.Steps[StepOf(b)].Last }

// Process starts one execution in the pool of its step.
func (f *Flow) Process(ctx workflow.Context, in wire.ProcessInput) workflow.Future {
	step := &f.Steps[StepOf(in.Batch)]
	in.Ref = f.ref
	step.Adjust(&in)
	return execute.Process(workflow.WithTaskQueue(ctx, execute.QueueOf(ctx, wire.PinnedQueue(step.Pool, f.pin))), in)
}

// Copies is in how many messages what the step of a batch writes is at most.
func (f *Flow) Copies(b wire.Batch) int {
	step := StepOf(b)
	n, pieces := 1, 1 // its own answer
	for _, s := range f.Steps[step+1:] {
		if s.Items > 0 {
			pieces = max(pieces, int((b.Count+s.Items-1)/s.Items))
		}
		n += pieces
	}
	return n
}
