package dispatch

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stint-run/stint/internal/base/samples"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// life is what a leg keeps of its life for the samples of the job's report. It follows the leg's totals: what has changed
// in them is added whenever a batch has ended. That takes no timers and no events.
type life struct {
	series *samples.Series
	noted  samples.Counts // of the totals
}

// newLife returns the life of a leg whose earlier runs have come to these outcomes. Its spans are at least as long as
// those of its job, so that one of many legs has few.
func newLife(sofar job.Outcomes, grain int) life {
	l := life{series: samples.New(grain), noted: lifeCounts(sofar.Totals)}
	l.series.Include(sofar.Life.Series())
	return l
}

func lifeCounts(t job.Totals) samples.Counts {
	return samples.Counts{
		samples.OK: t.OK, samples.Failed: t.Failed, samples.Reused: t.Reused,
		samples.Expiries: t.Expiries, samples.Deaths: t.Crashes, samples.Retries: t.Retries,
	}
}

// note adds what has changed in the totals, and the times of calls.
func (l *life) note(t job.Totals, began, now time.Time, calls calltimes.Text) {
	counts := lifeCounts(t)
	change := counts
	for i, n := range l.noted {
		change[i] -= n
	}
	l.noted = counts
	l.series.Add(began, now, change, calls)
}

// lived notes the end of an execution, in the time that it took. result is nil if it has failed.
func (d *Dispatcher) lived(t *task, result *wire.ProcessResult) {
	now := workflow.Now(d.ctx)
	began, calls := t.started, calltimes.Text("")
	if result != nil && result.Entry.Count > 0 {
		began, calls = now.Add(-result.Totals.Busy), result.Totals.CallTimes
		d.noteSlow(t, result, now)
	}
	if began.Before(t.started) {
		began = t.started
	}
	d.life.note(d.sofar.Totals, began, now, calls)
}

// noteSlow keeps an execution if it is among the slowest ones. Those of loops end when their time is over.
func (d *Dispatcher) noteSlow(t *task, r *wire.ProcessResult, now time.Time) {
	if d.Recover == nil {
		d.sofar.NoteSlow(job.SlowBatch{
			Number: t.Number, First: r.Entry.First, Items: r.Entry.Count, Stage: t.Stage, Worker: r.Worker, Took: r.Totals.Busy, Ended: now,
		})
	}
}

// Life returns what the leg keeps of its life.
func (d *Dispatcher) Life() samples.Packed { return d.life.series.Pack() }

// Result is Sofar with the leg's life, which takes some time to pack: for results and answers.
func (d *Dispatcher) Result() wire.LegOutcomes {
	r := d.sofar
	r.Life = d.Life()
	return r
}
