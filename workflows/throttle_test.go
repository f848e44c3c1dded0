package workflows

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
)

// paced makes batches take what a handler with so much work for an item takes at their pace, and
// fails if the rates of the batches in flight exceed the limit.
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

// A handler that asks for less is given less: its items have not failed, the whole job's rate sinks
// to what it can bear and recovers automatically, and the report shows it.
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
			t.Logf("%v s, %d executions, %d requests, seen %+v", took(report), len(w.all), report.SlowDowns, seen)
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

// However long a handler keeps asking to slow down, the job gets few enough signals for its history.
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
	t.Logf("%v s, %d requests, %v", took(report), report.SlowDowns, w.commands)
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
		report := w.query()
		paused := report.Throttle
		require.NotNil(t, paused)
		require.WithinDuration(t, w.env.Now().Add(-30*time.Second), report.SlowedSince, time.Second)
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
			require.Equal(t, dispatch.FirstSlice, x.in.Slice)
		}
	}
	w.mustRun()
	require.Equal(t, 16*dispatch.FirstSlice, w.all[4].in.Slice)
	require.Positive(t, w.all[6].in.Pace)
	require.Greater(t, w.all[len(w.all)-1].in.Slice, dispatch.FirstSlice, "the rate is back")
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
