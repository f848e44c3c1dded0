package dispatch

import (
	"slices"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// stages is what a dispatcher knows of the stages of a pipeline; of other jobs it knows of none.
type stages struct {
	before  []job.StageReport // of the leg's earlier runs
	delayed []*task           // those that wait for a repetition
}

func newStages(c Config) stages {
	return stages{before: c.Sofar.Stages}
}

// resume forgets a task that has waited for its repetition.
func (s *stages) resume(t *task) {
	s.delayed = slices.DeleteFunc(s.delayed, func(other *task) bool { return other == t })
}

// step is the index of the step of a pipeline that the task is for.
func (t *task) step() int {
	if t.From == nil {
		return 0
	}
	return t.From.Step
}

// look has the gate know what is under way.
func (d *Dispatcher) look() {
	if d.gate == nil {
		return
	}
	d.gate.Begin(d.window.places, d.rate.limits.Stages)
	for _, t := range d.flying {
		d.gate.Flies(t.step())
	}
	for i := range d.returned {
		d.gate.Returned(d.returned[i].step())
	}
	for _, t := range d.stages.delayed {
		d.gate.Returned(t.step())
	}
}

// held reports whether a task has to wait for others of its pipeline.
func (d *Dispatcher) held(t *task) bool { return d.gate != nil && !d.gate.Free(t.step()) }

// countStage counts what an execution has done in its stage.
func (d *Dispatcher) countStage(t task, r wire.ProcessResult) {
	if t.Stage == "" || r.Carried.Items == r.Entry.Count { // of a gathering step, which belongs to no stage
		return
	}
	i := slices.IndexFunc(d.sofar.Stages, func(s job.StageReport) bool { return s.Stage == t.Stage })
	if i < 0 {
		return
	}
	d.sofar.Stages = slices.Clone(d.sofar.Stages) // the result of an earlier run has it, too
	s := &d.sofar.Stages[i]
	s.Batches++
	s.Done += r.Entry.Count - r.Carried.Items
	s.Failed += r.Entry.Failed - r.Carried.Failed
	s.Busy += r.Totals.Busy
}

// stageReports are the stages with what waits and runs now.
func (d *Dispatcher) stageReports() []job.StageReport {
	all := slices.Clone(d.sofar.Stages)
	at := map[string]*job.StageReport{}
	for i := range all {
		at[all[i].Stage] = &all[i]
	}
	add := func(stage string, waiting, flying int) {
		if s := at[stage]; s != nil {
			s.Waiting += waiting
			s.InFlight += flying
		}
	}
	for _, t := range d.flying {
		add(t.Stage, 0, 1)
	}
	for i := range d.returned {
		add(d.returned[i].Stage, 1, 0)
	}
	for _, t := range d.stages.delayed {
		add(t.Stage, 1, 0)
	}
	if d.queued != nil {
		queued := d.queued()
		for i := range all {
			all[i].Waiting += queued[all[i].Stage]
		}
	}
	return all
}
