package workflows

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/samples"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
)

// timed gives executions the times of real ones.
func timed(x *execution) {
	x.result.Totals.Busy = x.took
	x.result.Totals.CallTimes = "5203 10:9 12:1"
	x.result.Worker = fmt.Sprintf("w%d", x.in.Batch.First/10%3)
}

// requireSteady fails unless items are done at about the same rate between all samples but the first and the last.
func requireSteady(t *testing.T, all []job.Sample, rate, tolerance float64) {
	t.Helper()
	for i := 2; i < len(all)-1; i++ {
		span := all[i].At.Sub(all[i-1].At)
		require.InDelta(t, rate, float64(all[i].Done()-all[i-1].Done())/span.Seconds(), tolerance*rate, "sample %d, of %v", i, span)
	}
}

// M9: samples show the whole life of a job with many legs, whichever of them has done what, and its slowest batches.
func TestSamples_OfManyLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 10_000)
	w.pageLimit, w.spec.Window, w.took = 100, 8, 2*time.Second
	w.process = func(x *execution) {
		if x.in.Batch.First == 500 {
			x.took = 7 * time.Second
		}
		timed(x)
		if x.in.Batch.First == 600 {
			x.result.Totals.Retries, x.result.Totals.Crashes, x.result.Totals.Expiries = 3, 2, 1
		}
	}
	var running job.Progress
	leg := 0
	w.at(100*time.Second, func() {
		_, err := fmt.Sscanf(w.query().OpenLegs[0], w.spec.Name+"/leg-%d", &leg)
		require.NoError(t, err)
		running, err = w.progress(leg)
		require.NoError(t, err)
	})
	report := w.mustRun()
	require.Greater(t, report.Legs, 5)
	shown := report.WithSamples()
	require.Greater(t, len(shown.Samples), 60)
	requireSteady(t, shown.Samples, 40, 0.5)
	took, events := shown.Samples[len(shown.Samples)-1].At.Sub(shown.Samples[0].At), [3]int64{}
	require.InDelta(t, 250, took.Seconds(), 30)
	longest := time.Duration(0)
	for _, s := range shown.Samples {
		longest = max(longest, s.Max)
		require.Less(t, s.P50, 2*time.Millisecond)
		events[0], events[1], events[2] = events[0]+s.Retries, events[1]+s.Deaths, events[2]+s.Expiries
	}
	require.Equal(t, [3]int64{3, 2, 1}, events)
	require.Equal(t, 5203*time.Microsecond, longest)

	own := running.Life.Series().Sum()
	require.Equal(t, []int64{running.OK, running.Failed}, own[:samples.Reused], "a leg that runs shows its own")
	require.NotZero(t, running.OK)

	require.Len(t, report.Slowest, limits.MaxSlowest)
	first := report.Slowest[0]
	require.Equal(t, job.SlowBatch{Number: 51, First: 500, Items: 10, Worker: "w2", Took: 7 * time.Second, Ended: first.Ended}, first)
	require.Equal(t, 2*time.Second, report.Slowest[1].Took)
}

// M9: a leg takes its life along when it continues as new; what it could not commit is not in it.
func TestSamples_OfALegThatContinuesAsNew(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.took = time.Second
	w.historyLength = func() int { return dispatch.MaxEvents * min(1, len(w.all)/20*(3-min(3, w.runs))) }
	w.process = timed
	in := w.legInput(60)
	in.Window = 2
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.Equal(t, 3, w.runs)
	require.EqualValues(t, 600, result.OK)
	all := job.Report{Outcomes: result.Outcomes}.WithSamples().Samples
	require.EqualValues(t, 600, all[len(all)-1].OK)
	require.Len(t, result.Slowest, limits.MaxSlowest)

	w = setup(t, 0)
	w.commit = func(wire.CommitInput) error { return permanentError(job.ErrorOutput) }
	result, err = w.runLeg(w.legInput(6))
	require.NoError(t, err)
	require.NotNil(t, result.Error)
	require.Zero(t, result.OK)
	require.Nil(t, result.Life)
	require.Empty(t, result.Slowest)
}

// M9: what ends without a result shows, too, also if nothing ends after it.
func TestSamples_OfLosses(t *testing.T) {
	t.Parallel()
	w := setup(t, 10)
	w.spec.Attempts = 2
	w.process = func(x *execution) { x.fails(errors.New("the disk is full")) }
	_, err := w.run()
	require.EqualValues(t, 1, w.failedReport(err, job.ErrorExhausted).Life.Series().Sum()[samples.Retries])

	w = setup(t, 10)
	w.process = func(x *execution) {
		x.fails(heartbeatTimeout())
		w.later(x.took+time.Millisecond, func() { w.stop(job.Stop{Reason: "lunch"}) })
	}
	report, err := w.run()
	require.NoError(t, err)
	require.NotZero(t, report.Expiries)
	require.Equal(t, report.Expiries, report.Life.Series().Sum()[samples.Expiries])
}

// M9: a job that continues as new keeps its samples.
func TestSamples_OverRunsOfTheJob(t *testing.T) {
	t.Parallel()
	w := setup(t, 3000)
	w.pageLimit, w.spec.Window, w.took = 20, 4, time.Second
	w.process = func(x *execution) {
		timed(x)
		w.env.SetContinueAsNewSuggested(w.runs == 1 && x.number > 100)
	}
	report := w.mustRun()
	require.Equal(t, 2, w.runs)
	all := report.WithSamples().Samples
	require.EqualValues(t, 3000, all[len(all)-1].OK)
	require.WithinDuration(t, report.Started, all[0].At, 5*time.Second)
}

// M9: the samples of a resumed job begin with those of the runs before, and agree with what is done of them.
func TestSamples_OfAResumedJob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		known int64         // items in the samples of the run before
		first int64         // what the first sample has
		ago   time.Duration // when that is, before the job started
	}{
		{"known", 400, 0, time.Hour},
		{"more is committed than its report had", 330, 70, time.Hour},
		{"less is committed", 420, 0, time.Hour},
		{"nothing is known", 0, 400, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 1000)
			w.took, w.process = time.Second, timed
			before := wire.CommitInput{}
			for first := range int64(40) {
				before.Entries = append(before.Entries, wire.Entry{Batch: batch(10*first, 10), OK: 10})
			}
			w.manifests["before"], w.resume = before, []string{"before"}
			var life samples.Series
			at := w.env.Now().Add(-time.Hour)
			life.Add(at, at, samples.Counts{samples.OK: c.known, samples.Retries: 1}, "")
			w.life = life.Pack()
			report := w.mustRun()
			require.EqualValues(t, 400, report.Resumed)
			all := report.WithSamples().Samples
			require.Equal(t, c.first, all[0].OK)
			require.EqualValues(t, 1000, all[len(all)-1].OK)
			for _, s := range all {
				if !s.At.After(report.Started) {
					require.LessOrEqual(t, s.OK, int64(400))
				}
			}
			require.InDelta(t, c.ago.Seconds(), report.Started.Sub(all[0].At).Seconds(), 2)
		})
	}

	w := setup(t, 1000) // that was stopped before it had counted what is done
	life := samples.New(0)
	life.Add(w.env.Now(), w.env.Now(), samples.Counts{samples.OK: 400}, "")
	w.life = life.Pack()
	w.plan = func(wire.PlanInput) error { return permanentError(job.ErrorInput) }
	_, err := w.run()
	report := w.failedReport(err, job.ErrorInput)
	require.EqualValues(t, 400, report.Life.Series().Sum()[samples.OK])
}
