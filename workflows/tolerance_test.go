package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stretchr/testify/require"
)

// failing makes the first n items of every batch that wants it fail.
func (x *execution) failing(n int64) {
	r := &x.result
	n = min(n, r.Entry.Count)
	r.Entry.OK, r.Entry.Failed = r.Entry.Count-n, n
	r.Totals.OK, r.Totals.Failed = r.Entry.OK, n
	if n > 0 {
		r.FirstError = &job.FirstError{Item: x.in.Batch.First, Kind: job.KindError, Error: job.Error{Type: "ValueError", Message: "no number"}}
	}
}

// More failures than max-failed end the job as failed; it can be resumed. It hears of them from legs
// in time.
func TestTolerance_Exceeded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		max      job.Tolerance
		every    int64 // batch fails with one item
		atLeast  int64 // failures that it takes
		nearness int64 // how many more may be noticed late
	}{
		{"0", 1, 1, 10},
		{"100", 1, 101, 40},
		{"1000", 2, 1001, 300},
		{"5%", 1, 50, 70},    // of the first thousand outcomes
		{"0.5%", 10, 6, 100}, // 1 % fail
	} {
		t.Run(string(c.max), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 100_000)
			w.spec.MaxFailed, w.spec.Window = c.max, 10
			w.took = time.Second
			w.process = func(x *execution) {
				if x.in.Batch.First/w.perBatch%c.every == 0 {
					x.failing(1)
				}
			}
			_, err := w.run()
			report := w.failedReport(err, job.ErrorTooMany)
			require.GreaterOrEqual(t, report.Failed, c.atLeast)
			require.LessOrEqual(t, report.Failed, c.atLeast+c.nearness)
			require.Contains(t, report.Error.Message, "max-failed "+string(c.max))
			require.Contains(t, report.Error.Message, "(error): no number")
			require.LessOrEqual(t, w.commands["signal "+wire.SignalCounts], 60, "legs report what matters")
			w.requireAccepted(report)
		})
	}
}

func TestTolerance_Kept(t *testing.T) {
	t.Parallel()
	for _, max := range []job.Tolerance{"", "1000", "10%", "none"} {
		t.Run(string(max), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 10_000)
			w.spec.MaxFailed = max
			w.process = func(x *execution) { x.failing(1) }
			report := w.mustRun()
			require.EqualValues(t, 1000, report.Failed)
			require.LessOrEqual(t, w.commands["signal "+wire.SignalCounts], 30*len(w.legs), "30 from a leg")
		})
	}
}

// A share is judged at the end, too, if it was never judged before.
func TestTolerance_ShareOfASmallJob(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.spec.MaxFailed = "5%"
	w.process = func(x *execution) { x.failing(1) }
	_, err := w.run()
	report := w.failedReport(err, job.ErrorTooMany)
	require.EqualValues(t, 100, report.Done())
	require.Empty(t, w.finishes)
}

// If not one of the first thousand outcomes is a success, nothing works; nor if all fail, from
// ten items up.
func TestTolerance_NothingWorks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		items, atMost int64
		fails         bool
	}{{9, 9, false}, {10, 10, true}, {999, 999, true}, {1000, 1000, true}, {100_000, 1200, true}} {
		for _, pages := range []int{0, 5} {
			t.Run(fmt.Sprint(c.items, " pages of ", pages), func(t *testing.T) {
				t.Parallel()
				w := setup(t, c.items)
				w.pageLimit, w.spec.Window = pages, 10
				w.took = time.Second
				w.process = func(x *execution) { x.failing(10) }
				if !c.fails {
					require.EqualValues(t, c.items, w.mustRun().Failed)
					return
				}
				_, err := w.run()
				report := w.failedReport(err, job.ErrorHopeless)
				require.LessOrEqual(t, report.Failed, c.atMost)
				require.Contains(t, report.Error.Message, "nothing works")
				require.Contains(t, report.Error.Message, "no number")
				require.Empty(t, w.finishes)
			})
		}
	}
}

// What a leg has done well counts before it ends: another one's failures alone decide nothing.
func TestTolerance_OtherLegsSuccesses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		max   job.Tolerance
		first bool // the job's first page fails, too
	}{{"", true}, {"10%", false}} {
		t.Run(fmt.Sprintf("max-failed %q", c.max), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 160+10_000+5000)
			w.spec.MaxFailed, w.spec.Window = c.max, 10
			w.took = time.Second
			w.process = func(x *execution) {
				switch first := x.in.Batch.First; {
				case first < 160 && c.first:
					x.failing(10)
				case first == 9000:
					x.took = time.Hour // keeps the leg open
				case first >= 10_160 && (first < 11_000 || c.max == ""):
					x.failing(10)
				}
			}
			report := w.mustRun()
			require.LessOrEqual(t, w.commands["signal "+wire.SignalCounts]+w.commands["signal "+wire.SignalLimits], 60)
			require.Positive(t, report.Failed)
		})
	}
}

// A leg that cannot report any more holds nothing up for longer than it runs.
func TestTolerance_OtherLegCommits(t *testing.T) {
	t.Parallel()
	w := setup(t, 160+10_000+50_000)
	w.spec.MaxFailed, w.spec.Window = "10%", 10
	w.took, w.commitTook = time.Second, 10*time.Minute
	w.process = func(x *execution) {
		if x.in.Batch.First >= 10_160 {
			x.failing(10)
		}
	}
	_, err := w.run()
	report := w.failedReport(err, job.ErrorTooMany)
	require.Less(t, report.Failed, int64(10_000))
	w.requireAccepted(report)
}

// One success is enough, and what earlier runs have done does not count.
func TestTolerance_SomethingWorks(t *testing.T) {
	t.Parallel()
	w := setup(t, 3000)
	w.process = func(x *execution) {
		if x.in.Batch.First != 500 {
			x.failing(10)
		} else {
			x.failing(9)
		}
	}
	require.EqualValues(t, 1, w.mustRun().OK)
}

// A job that continues after "nothing works" counts anew.
func TestTolerance_ResumedCountsAnew(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.spec.Window = 10
	w.process = func(x *execution) { x.failing(10) }
	_, err := w.run()
	report := w.failedReport(err, job.ErrorHopeless)
	w.resume = report.Manifests
	w.process = nil
	resumed := w.mustRun()
	require.EqualValues(t, report.Failed, resumed.Resumed)
}

// failsAlone has the execution's items fail, each alone in its call, until it has to return its rest; the first ok of
// them succeed.
func (x *execution) failsAlone(ok int64) {
	n := x.in.Batch.Count
	if limit := x.in.Hopeless; ok == 0 && limit > 0 && limit < n {
		n = limit
	}
	x.rests(n)
	x.failing(n - ok)
	x.result.Totals.Alone = n - ok
}

// Twenty items without a success that made calls of themselves alone fail show that nothing works, long before a
// thousand outcomes do, also over many legs. One success is enough for all of them to be tried.
func TestTolerance_FailsAlone(t *testing.T) {
	t.Parallel()
	for _, pages := range []int{0, 1} {
		t.Run(fmt.Sprint("pages of ", pages), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 100_000)
			w.perBatch, w.pageLimit, w.spec.Window, w.took = 500, pages, 3, time.Second
			w.process = func(x *execution) { x.failsAlone(0) }
			_, err := w.run()
			report := w.failedReport(err, job.ErrorHopeless)
			require.GreaterOrEqual(t, report.Failed, int64(coordinate.HopelessAlone))
			require.LessOrEqual(t, report.Failed, int64(2*3*coordinate.HopelessAlone))
			w.requireAccepted(report)
		})
	}
	t.Run("one success", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 5000)
		w.perBatch, w.spec.Window = 500, 1
		w.process = func(x *execution) { x.failsAlone(1) }
		report := w.mustRun()
		require.EqualValues(t, 10, report.OK)
		require.EqualValues(t, 10, report.Batches, "none has to return a rest")
	})
	t.Run("small batches", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 5000)
		w.spec.Window = 1
		w.process = func(x *execution) { x.failsAlone(0) }
		_, err := w.run()
		require.EqualValues(t, coordinate.HopelessAlone, w.failedReport(err, job.ErrorHopeless).Failed)
	})
	t.Run("items that the handler answers for", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 900)
		w.process = func(x *execution) {
			if x.in.Batch.First < 890 {
				x.failing(10)
			}
		}
		require.EqualValues(t, 890, w.mustRun().Failed)
	})
}

// Outcomes that could not be recorded, because an item before them had none yet, count as well: such an execution would
// otherwise return the same rest again and again.
func TestTolerance_FailsAloneUnrecorded(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.perBatch, w.spec.Window = 500, 1
	w.process = func(x *execution) {
		if limit := x.in.Hopeless; limit > 0 {
			x.rests(0)
			x.result.Totals.Alone = limit
		}
	}
	_, err := w.run()
	w.failedReport(err, job.ErrorHopeless)
	require.Len(t, w.all, 1)
}

// Temporal may deliver limits in another order than they were sent in: what is older changes nothing.
func TestSignals_OvertakenLimits(t *testing.T) {
	t.Parallel()
	w := setup(t, 40)
	w.spec.Window = 1
	w.took = time.Second
	w.at(500*time.Millisecond, func() {
		w.env.SignalWorkflow(wire.SignalLimits, wire.LegLimits{Number: 2, Rate: 77, Legs: 1})
		w.env.SignalWorkflow(wire.SignalLimits, wire.LegLimits{Number: 1, Rate: 7, Legs: 1})
	})
	_, err := w.runLeg(w.legInput(4))
	require.NoError(t, err)
	require.Equal(t, job.Rate(77), w.all[3].in.Pace)
}
