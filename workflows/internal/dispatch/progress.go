package dispatch

import (
	"fmt"
	"slices"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

// Sofar are the outcomes of the leg, those of its earlier runs included.
func (d *Dispatcher) Sofar() wire.Outcomes { return d.sofar }

// Progress is what the queries and the report show.
func (d *Dispatcher) Progress() job.Progress {
	return job.Progress{
		Totals: d.sofar.Totals, Waiting: d.waiting() + d.delayed, InFlight: len(d.flying),
		FirstError: d.sofar.FirstError, LastFailure: d.lastError, Workers: d.sofar.Workers, Oldest: d.oldest(), Outage: d.sofar.Outage,
		Stages: d.stageReports(),
	}
}

// Flying returns those of the executions that are in flight: the others have ended here, or are not the dispatcher's.
func (d *Dispatcher) Flying(executions []string) []string {
	var flying []string
	for _, t := range d.flying {
		if id := t.activityID(); slices.Contains(executions, id) {
			flying = append(flying, id)
		}
	}
	return flying
}

// ProgressWith is Progress, and which of the executions are in flight.
func (d *Dispatcher) ProgressWith(executions []string) job.Progress {
	p := d.Progress()
	p.Flying = d.Flying(executions)
	return p
}

// counted is what the job hears of the leg's progress.
func (d *Dispatcher) counted() job.Counted {
	t := d.sofar.Totals
	return job.Counted{OK: t.OK, Failed: t.Failed, Dropped: t.Dropped, Batches: t.Batches, Bytes: t.InputBytes, At: workflow.Now(d.ctx)}
}

// oldest describes the batch that has been in flight for longest; "" if none is.
func (d *Dispatcher) oldest() string {
	if len(d.flying) == 0 {
		return ""
	}
	first := d.flying[0]
	for _, t := range d.flying {
		if t.started.Before(first.started) {
			first = t
		}
	}
	return fmt.Sprintf("%s, dispatched at %s", first.summary(), first.started.UTC().Format("15:04:05"))
}

// Details describes a leg for people.
func (d *Dispatcher) Details() string {
	t := d.sofar.Totals
	s := fmt.Sprintf("%s items ok · %s failed · %s batches done · %d in flight · %d waiting",
		text.Thousands(t.OK), text.Thousands(t.Failed), text.Thousands(t.Batches), len(d.flying), d.waiting()+d.delayed)
	for _, stage := range d.stageReports() {
		s += "\n\n" + stage.String()
	}
	if oldest := d.oldest(); oldest != "" {
		s += "\n\nOldest in flight: " + oldest
	}
	if d.sofar.Outage != nil {
		s += "\n\nWaiting " + d.sofar.Outage.String()
	}
	if d.lastError != "" {
		s += "\n\nLast retry: " + d.lastError
	}
	return s
}
