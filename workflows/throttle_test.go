package workflows

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
)

// paced makes batches take what a handler with so much work for an item takes at their pace, and
// fails where the paces of what is in flight exceed the limit.
func (w *world) paced(work time.Duration, limit func() job.Rate) {
	w.process = func(x *execution) {
		w.pacedBatch(x, work)
		if l := limit(); l > 0 {
			require.NotZero(w.t, x.in.Pace)
			require.LessOrEqual(w.t, w.paces(), l)
		}
	}
}

func (w *world) pacedBatch(x *execution, work time.Duration) {
	busy := time.Duration(x.result.Entry.Count) * work
	if x.in.Pace > 0 {
		due := time.Duration(x.result.Entry.Count) * 1000 * time.Second / time.Duration(x.in.Pace)
		x.result.Paced = max(0, due-busy)
	}
	x.took = busy + x.result.Paced
	x.result.Totals.Busy = x.took
}

// A job's rate is kept exactly, and reached, whatever a handler takes for an item.
func TestRate_KeptAndReached(t *testing.T) {
	t.Parallel()
	for _, work := range []time.Duration{time.Microsecond, 10 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second} {
		t.Run(work.String(), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 6000)
			w.spec.JobRate = 10_000 // ten a second
			w.paced(work, func() job.Rate { return w.spec.JobRate })
			report := w.mustRun()
			require.GreaterOrEqual(t, took(report), 595.0)
			require.LessOrEqual(t, took(report), 800.0)
			most := int(10*work/time.Second*11/10) + 2
			require.LessOrEqual(t, w.most, most, "no more in flight than it takes")
		})
	}
}

// While there is a limit, one leg is open at a time.
func TestRate_OneLegAtATime(t *testing.T) {
	t.Parallel()
	w := setup(t, 3000)
	w.pageLimit = 50
	w.spec.JobRate = 100_000
	w.paced(time.Millisecond, func() job.Rate { return w.spec.JobRate })
	w.mustRun()
	require.Greater(t, len(w.legs), 3)
}

func TestNeeded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate job.Rate
		item time.Duration
		want int
	}{
		{1000, 0, 1}, {1000, time.Millisecond, 1}, {1000, time.Second, 2}, {10_000, time.Second, 11},
		{100_000, time.Second, 64}, {job.MaxRate, time.Hour, 64}, {job.MaxRate, time.Nanosecond, 2}, {1, time.Hour, 4},
	} {
		require.Equal(t, c.want, needed(c.rate, c.item, 64), "%+v", c)
	}
	require.Equal(t, 1, needed(10_000, time.Second, 0), "a window without places")
}

// The limit of a handler's wish halves, holds, grows by itself and goes.
func TestSlowed_Recovers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	var s slowed
	require.Zero(t, s.rate(now))
	s.slow(now, 2*time.Second, 100_000)
	require.Equal(t, slowed{Base: 50_000, From: now.Add(2 * time.Second), Halved: now}, s)
	s.slow(now.Add(time.Second), 3*time.Second, 100_000)
	require.Equal(t, job.Rate(50_000), s.Base, "batches that were under way ask for the same")
	require.Equal(t, now.Add(4*time.Second), s.From)
	before := s.rate(s.From)
	for d := time.Second; s.rate(s.From.Add(d)) > 0; d += time.Second {
		rate := s.rate(s.From.Add(d))
		require.GreaterOrEqual(t, rate, before)
		require.LessOrEqual(t, rate, recovered*s.Base)
		before = rate
		require.Less(t, d, 5*time.Minute)
	}
	s.slow(now.Add(6*time.Second), time.Second, 0)
	require.Equal(t, job.Rate(25_000), s.Base, "another wish, later")
	fresh := slowed{}
	fresh.slow(now, time.Second, 0)
	require.Equal(t, slowed{From: now.Add(time.Second), Halved: now}, fresh, "no rate is known: a pause only")
	for range 30 {
		s.slow(s.From.Add(time.Second), 6*time.Second, 0)
	}
	require.Equal(t, minSlowed, s.Base)
}

// A handler that asks for less is given less: its items have not failed, the whole job's rate sinks
// to what it can bear and comes back by itself, and the report tells.
func TestThrottle_FindsTheRate(t *testing.T) {
	t.Parallel()
	for _, pages := range []int{0, 40} {
		t.Run(fmt.Sprint("pages of ", pages), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 20_000)
			w.pageLimit = pages
			const bears = 50_000 // fifty items a second, in all
			w.process = func(x *execution) {
				w.pacedBatch(x, 10*time.Millisecond)
				offered := w.paces()
				if x.in.Pace == 0 {
					offered = job.Rate(w.flying) * 100_000
				}
				if offered > bears {
					x.rests(min(3, x.in.Batch.Count))
					x.result.SlowDown = 2 * time.Second
					x.took = 30 * time.Millisecond
				}
			}
			var seen *job.Throttle
			w.at(20*time.Second, func() { seen = w.query().Throttle })
			report := w.mustRun()
			require.NotNil(t, seen)
			require.LessOrEqual(t, seen.Rate, job.Rate(2*bears))
			require.Positive(t, report.SlowDowns)
			require.Zero(t, report.Failed)
			require.LessOrEqual(t, took(report), 4*20_000/50.0, "not much slower than what can be borne")
			require.LessOrEqual(t, len(w.all), 2*20_000/10)
			t.Logf("%v s, %d executions, %d wishes, seen %+v", took(report), len(w.all), report.SlowDowns, seen)
		})
	}
}

// A handler that asks for less whenever a call is too large for it, and has done nothing then, gets on.
func TestThrottle_LargeCalls(t *testing.T) {
	t.Parallel()
	w := setup(t, 20_000)
	w.perBatch = 1000
	w.process = func(x *execution) {
		if n := x.takes(); n > 20 {
			x.rests(0)
			x.result.SlowDown = time.Second
		}
	}
	report := w.mustRun()
	require.Less(t, len(w.all), 20*200)
	for _, x := range w.all {
		require.True(t, x.in.Take == 0 || x.in.Take <= 500)
	}
	w.requireAccepted(report)
}

// However long a handler goes on asking for less, the job hears of it seldom enough for its history.
func TestThrottle_WishesAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, 20_000)
	w.perBatch = 100
	const bears = 5000 // five items a second, in all
	w.process = func(x *execution) {
		w.pacedBatch(x, 10*time.Millisecond)
		if x.in.Pace == 0 || w.paces() > bears {
			x.rests(min(3, x.in.Batch.Count))
			x.result.SlowDown = 100 * time.Millisecond
			x.took = 30 * time.Millisecond
		}
	}
	report := w.mustRun()
	require.Less(t, took(report), 4*20_000/5.0)
	most := 2 * math.Cbrt(3000*took(report))
	require.LessOrEqual(t, float64(w.commands["signal slow"]), most)
	require.LessOrEqual(t, float64(w.commands["signal limits"]), 2*most)
	t.Logf("%v s, %d wishes, %v", took(report), report.SlowDowns, w.commands)
}

// Nothing is begun before the delay is over.
func TestThrottle_Delay(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.spec.Window = 2
	asked := false
	w.process = func(x *execution) {
		x.took = time.Second
		if !asked {
			asked = true
			x.rests(0)
			x.result.SlowDown = time.Minute
			x.took = time.Second / 2
		}
	}
	w.at(30*time.Second, func() {
		paused := w.query().Throttle
		require.NotNil(t, paused)
		require.Zero(t, paused.Rate, "nothing was done before: no rate is known")
		require.WithinDuration(t, w.env.Now().Add(30*time.Second), paused.Until, time.Second)
		require.Equal(t, "to a pause until "+paused.Until.UTC().Format(time.TimeOnly), paused.String())
	})
	require.Nil(t, w.mustRun().Throttle)
	for _, x := range w.all[2:] {
		require.GreaterOrEqual(t, x.seconds(), 60.0)
	}
}

// A batch that was slowed down keeps its pace, so it runs for no longer than a minute, however often it
// has rested before; others run for longer and longer.
func TestThrottle_ShortSlices(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.perBatch, w.spec.Window = 1000, 1
	w.process = func(x *execution) {
		x.took = 5 * time.Second
		x.rests(min(10, x.in.Batch.Count))
		if x.number == 5 {
			x.result.SlowDown = time.Second
		}
		if x.in.Pace > 0 {
			require.Equal(t, firstSlice, x.in.Slice)
		}
	}
	w.mustRun()
	require.Equal(t, 16*firstSlice, w.all[4].in.Slice)
	require.Positive(t, w.all[6].in.Pace)
	require.Greater(t, w.all[len(w.all)-1].in.Slice, firstSlice, "the rate is back")
}

// Settings change while the job runs, show in the report, and live on over its runs.
func TestSet_TakesEffect(t *testing.T) {
	t.Parallel()
	window, rate, items, most := 3, job.Rate(50_000), int64(7), job.Tolerance("3%")
	w := setup(t, 20_000)
	w.pageLimit, w.spec.Window = 50, 20
	w.took = time.Second
	changed := false
	w.process = func(x *execution) {
		w.pacedBatch(x, 100*time.Millisecond)
		if changed && x.seconds() > 15 {
			require.LessOrEqual(t, x.beside, window)
			require.LessOrEqual(t, w.paces(), rate)
		}
	}
	w.at(10*time.Second, func() {
		w.env.UpdateWorkflow(job.UpdateSet, "one", accept(t, &changed), job.Settings{Window: &window, Rate: &rate, BatchItems: &items, MaxFailed: &most})
	})
	report := w.mustRun()
	require.True(t, changed)
	require.Equal(t, job.Settings{Window: &window, Rate: &rate, BatchItems: &items, MaxFailed: &most}, report.Settings)
	last := w.plans[len(w.plans)-1]
	require.Equal(t, items, last.Spec.BatchItems)
	require.Equal(t, window, last.Spec.Window)
}

// A larger window is used at once, by a leg in a child workflow and by one inside the job.
func TestSet_LargerWindow(t *testing.T) {
	t.Parallel()
	for _, items := range []int64{150, 20_000} {
		t.Run(fmt.Sprint(items), func(t *testing.T) {
			t.Parallel()
			window := 30
			w := setup(t, items)
			w.spec.Window = 2
			w.took = 10 * time.Second
			set := false
			w.at(15*time.Second, func() { w.env.UpdateWorkflow(job.UpdateSet, "one", accept(t, &set), job.Settings{Window: &window}) })
			report, err := w.run()
			require.NoError(t, err)
			require.Equal(t, job.Completed, report.State)
			require.Greater(t, w.most, min(9, int(items/20)))
			require.LessOrEqual(t, w.most, window)
		})
	}
}

// A smaller window counts as soon as batches end, in whichever leg they are, and no place is lost.
func TestSet_SmallerWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at   time.Duration
		slow int64 // batch of this item keeps its leg open
	}{{50 * time.Second, -1}, {95 * time.Second, 500}, {200 * time.Second, -1}, {250 * time.Second, 5000}} {
		t.Run(c.at.String(), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 160+6*2000)
			w.pageLimit, w.spec.Window, w.took = 200, 20, 10*time.Second
			window := 5
			var begun time.Time
			w.process = func(x *execution) {
				if x.in.Batch.First == c.slow {
					x.took = time.Hour
				}
				if !begun.IsZero() && x.at.Sub(begun) > 25*time.Second {
					require.LessOrEqual(t, x.beside, window)
				}
			}
			set := false
			w.at(c.at, func() {
				begun = w.env.Now()
				w.env.UpdateWorkflow(job.UpdateSet, "one", accept(t, &set), job.Settings{Window: &window})
			})
			restored := false
			w.at(c.at+time.Minute, func() {
				begun = time.Time{}
				w.env.UpdateWorkflow(job.UpdateSet, "two", accept(t, &restored), job.Settings{Window: &w.spec.Window})
			})
			report := w.mustRun()
			require.True(t, set && restored)
			at := report.Started.Add(c.at + 2*time.Minute)
			most := 0
			for _, x := range w.all {
				if x.at.After(at) {
					most = max(most, x.beside)
				}
			}
			kept := 0
			if c.slow >= 0 {
				kept = w.spec.Window / (handings - 1) // a leg that drains may keep less than a share to its end
			}
			require.GreaterOrEqual(t, most, w.spec.Window-kept, "the places are back")
		})
	}
}

// What cannot be set is refused, and leaves no trace.
func TestSet_Refused(t *testing.T) {
	t.Parallel()
	none, negative, wrong := 0, int64(-1), job.Tolerance("many")
	w := setup(t, 1000)
	w.took = time.Minute
	w.spec.Window = 2
	w.settle = 5 * time.Second
	refused := 0
	for i, s := range []job.Settings{{}, {Window: &none}, {BatchItems: &negative}, {MaxFailed: &wrong}} {
		w.at(time.Second, func() { w.env.UpdateWorkflow(job.UpdateSet, fmt.Sprint(i), refuse(t, &refused), s) })
	}
	w.at(10*time.Minute+30*time.Second, func() { w.stop(job.Stop{Grace: "10m"}) })
	w.at(10*time.Minute+31*time.Second, func() {
		w.env.UpdateWorkflow(job.UpdateSet, "late", refuse(t, &refused), job.Settings{Rate: new(job.Rate)})
	})
	report := w.stopped()
	require.Equal(t, 5, refused)
	require.Equal(t, 2, *report.Settings.Window)
}

// A tolerance that is set below what has failed already ends the job.
func TestSet_Tolerance(t *testing.T) {
	t.Parallel()
	five := job.Tolerance("5")
	w := setup(t, 20_000)
	w.took, w.spec.Window = time.Second, 5
	w.process = func(x *execution) { x.failing(1) }
	set := false
	w.at(30*time.Second, func() { w.env.UpdateWorkflow(job.UpdateSet, "one", accept(t, &set), job.Settings{MaxFailed: &five}) })
	_, err := w.run()
	report := w.failedReport(err, job.ErrorTooMany)
	require.LessOrEqual(t, took(report), 60.0)
}

// accept takes an update that must be accepted.
func accept(t *testing.T, done *bool) *testsuite.TestUpdateCallback {
	return &testsuite.TestUpdateCallback{
		OnAccept: func() {},
		OnReject: func(err error) { require.NoError(t, err) },
		OnComplete: func(_ any, err error) {
			require.NoError(t, err)
			*done = true
		},
	}
}

// refuse takes an update that must be refused.
func refuse(t *testing.T, count *int) *testsuite.TestUpdateCallback {
	return &testsuite.TestUpdateCallback{
		OnAccept:   func() { t.Error("accepted") },
		OnReject:   func(error) { *count++ },
		OnComplete: func(any, error) {},
	}
}
