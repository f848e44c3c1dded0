package workflows

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
)

// The window is exact: never more in flight, over legs that overlap and places that are handed on,
// and it is used.
func TestWindow_NeverExceeded(t *testing.T) {
	t.Parallel()
	for _, window := range []int{1, 2, 7, 64} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 8000)
			w.spec.Window, w.pageLimit = window, 150
			w.process = uneven
			report := w.mustRun()
			require.GreaterOrEqual(t, report.Legs, 5)
			require.Equal(t, window, w.most)
			for leg := 1; leg < report.Legs; leg++ {
				require.LessOrEqual(t, w.commands["signals to "+wire.LegID("nightly", leg)], 8, "leg %d", leg)
			}
		})
	}
}

// The end of a leg is not a gap: its free places work for the next leg while its last batches run.
func TestWindow_NoGapBetweenLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 10_000)
	w.spec.Window, w.pageLimit, w.took = 10, 150, time.Millisecond
	w.process = uneven
	report := w.mustRun()
	require.GreaterOrEqual(t, report.Legs, 7)
	var work time.Duration
	for _, x := range w.all {
		work += x.took
	}
	last := w.all[len(w.all)-1]
	took := last.at.Add(last.took).Sub(w.all[0].at)
	require.Less(t, took, work/time.Duration(w.spec.Window)*5/4, "all places work nearly all of the time")
}

// A batch that takes very long keeps its own place and no other: legs after it work on, whether it
// runs in the job itself or in a leg, and although later legs end before its own.
func TestWindow_SlowBatchHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]int64{"in the job": 30, "in a leg": 300, "at the end of a leg": 16*10 + 50*10 - 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 4000)
			w.spec.Window, w.pageLimit, w.took = 4, 50, time.Second
			w.process = func(x *execution) {
				if x.in.Batch.First == slow {
					x.took = 10 * time.Hour
				}
			}
			w.mustRun()
			last := w.all[len(w.all)-1]
			// 400 batches of a second with three or four places.
			require.Less(t, last.seconds(), 200.0, "when the last batch was dispatched")
		})
	}
}

// The same with two slow batches in two legs: as both are open, no other leg can be, but the places
// are not lost for those that follow.
func TestWindow_PlacesSurviveTwoSlowLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 3000)
	w.spec.Window, w.pageLimit, w.took = 4, 50, time.Second
	w.process = func(x *execution) {
		if first := x.in.Batch.First; first == 200 || first == 700 {
			x.took = time.Hour
		}
	}
	w.mustRun()
	last := w.all[len(w.all)-1]
	require.Less(t, last.seconds(), time.Hour.Seconds()+200)
}

// backs has a leg that runs by itself hand its places back to a job that takes them, and sums them up.
func (w *world) backs() (places, times *int) {
	places, times = new(int), new(int)
	w.sent = func(signal string, arg any) {
		if signal == wire.SignalPlaces {
			*places += arg.(wire.PlacesBack).Places
			*times++
		}
	}
	return places, times
}

// A leg that has no more batches for its places hands them back, a few times. The last leg keeps them.
func TestLeg_HandsBack(t *testing.T) {
	t.Parallel()
	for _, last := range []bool{false, true} {
		w := setup(t, 0)
		w.spec.Window, w.took = 40, time.Second
		w.process = func(x *execution) { x.took *= time.Duration(x.number) }
		places, times := w.backs()
		in := w.legInput(50)
		in.Last = last
		_, err := w.runLeg(in)
		require.NoError(t, err)
		if last {
			require.Zero(t, *times)
			continue
		}
		require.Greater(t, *times, 1)
		require.LessOrEqual(t, *times, dispatch.MaxHandBacks)
		require.Greater(t, *places, 25)
		require.LessOrEqual(t, *places, 40)
	}
}

// While a repetition waits the leg keeps its places: it will need one.
func TestLeg_HandsNothingOnWhileARepetitionWaits(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 4
	w.sent = func(signal string, _ any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		require.True(t, signal != wire.SignalPlaces || len(w.tries(0)) == 2, "not before the failed batch runs again")
	}
	w.process = func(x *execution) {
		if x.in.Batch.First == 0 && len(w.tries(0)) == 1 {
			x.fails(transient("once"))
		}
		if x.in.Batch.First > 0 {
			x.took = time.Minute
		}
	}
	result, err := w.runLeg(w.legInput(4))
	require.NoError(t, err)
	require.EqualValues(t, 40, result.Totals.OK)
}

// Places that were granted during a run are there in the new run.
func TestLeg_ContinuesAsNewWithPlaces(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.took = 3, time.Second
	w.historyLength = func() int {
		if w.runs == 1 {
			return dispatch.MaxEvents * min(1, len(w.all)/20)
		}
		return 0
	}
	granted, times := w.backs()
	w.at(1500*time.Millisecond, func() { w.env.SignalWorkflow(wire.SignalGrant, 4) })
	// These arrive while the last batches of the first run are under way, or its commit.
	w.commitTook = 10 * time.Second
	w.commit = func(wire.CommitInput) error {
		if len(w.commits) == 1 {
			w.later(5*time.Second, func() { w.env.SignalWorkflow(wire.SignalGrant, 2) })
		}
		return nil
	}
	result, err := w.runLeg(w.legInput(60))
	require.NoError(t, err)
	require.Equal(t, 2, w.runs)
	require.EqualValues(t, 600, result.Totals.OK)
	require.Equal(t, 9, w.most, "3 at first, 4 granted in time, 2 during the commit")
	require.LessOrEqual(t, *granted, 9)
	require.Positive(t, *granted)
	require.LessOrEqual(t, *times, dispatch.MaxHandBacks)
}

// simulated are the workers of a pool: a queue that their slots take batches from, in order.
type simulated struct {
	w        *world
	each     time.Duration // that a batch takes, from a half to one and a half of it
	latency  time.Duration // until a slot has a batch that it waited for
	name     string
	capacity wire.Capacity
	slots    []simulatedSlot
	slotsOf  map[string]int // by worker, if they are not as many as capacity says
}

type simulatedSlot struct {
	worker string
	free   time.Time
}

// serve has a pool of one worker run the batches of a world.
func (w *world) serve(slots int, each time.Duration) *simulated {
	s := &simulated{w: w, each: each, latency: 5 * time.Millisecond}
	s.add("host-1", slots, time.Time{})
	w.process = s.Process
	w.planner = func(r *wire.PlanResult) { r.Worker, r.Capacity = s.name, s.capacity }
	return s
}

// add adds a worker at a time.
func (s *simulated) add(name string, slots int, at time.Time) {
	s.name, s.capacity = name, wire.Capacity{Slots: slots, Concurrency: 1}
	for range slots {
		s.slots = append(s.slots, simulatedSlot{name, at})
	}
}

func (s *simulated) Process(x *execution) {
	i := 0
	for k := range s.slots {
		if s.slots[k].free.Before(s.slots[i].free) {
			i = k
		}
	}
	slot := &s.slots[i]
	taken := x.at.Add(s.latency)
	if slot.free.After(taken) {
		taken = slot.free
	}
	random := rand.New(rand.NewPCG(uint64(x.in.Batch.First), 1))
	slot.free = taken.Add(s.each/2 + time.Duration(random.Int64N(int64(s.each))))
	x.took = slot.free.Sub(x.at)
	x.result.Worker, x.result.Capacity, x.result.Started = slot.worker, s.capacity, taken.UnixMilli()
	if n := s.slotsOf[slot.worker]; n > 0 {
		x.result.Capacity.Slots = n
	}
	x.result.Totals.Busy = s.each
}

// An automatic window is what the pool takes, as its workers say; it keeps every slot busy, and no more are in flight.
func TestWindow_Automatic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ slots, want int }{{2, limits.LeastAutoWindow}, {32, limits.LeastAutoWindow}, {100, 200}} {
		t.Run(fmt.Sprint(c.slots, " slots"), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 10_000)
			w.spec.Window = 0
			w.serve(c.slots, 5*time.Second)
			report := w.mustRun()
			require.Equal(t, c.want, report.Window)
			require.Zero(t, *report.Settings.Window)
			require.Equal(t, c.want, w.most)
			require.Less(t, took(report), 1.2*5000/float64(c.slots)+6)
		})
	}
}

// A window that has been set stays, whatever the pool takes.
func TestWindow_SetIsExact(t *testing.T) {
	t.Parallel()
	w := setup(t, 10_000)
	w.spec.Window = 10
	w.serve(100, time.Second)
	report := w.mustRun()
	require.Equal(t, 10, report.Window)
	require.Equal(t, 10, w.most)
}

// A second worker makes the window larger, as soon as one of its batches has ended.
func TestWindow_SecondWorker(t *testing.T) {
	t.Parallel()
	w := setup(t, 40_000)
	w.spec.Window = 0
	s := w.serve(60, 5*time.Second)
	w.at(20*time.Second, func() {
		require.Equal(t, 120, w.query().Window)
		s.add("host-2", 60, w.env.Now())
	})
	w.at(40*time.Second, func() { require.Equal(t, 240, w.query().Window) })
	report := w.mustRun()
	require.Equal(t, 240, report.Window)
	require.Equal(t, 240, w.most)
}

// Workers that the job does not know of wait for batches: the window grows until they do not.
func TestWindow_GrowsWhileSlotsWait(t *testing.T) {
	t.Parallel()
	w := setup(t, 60_000)
	w.spec.Window = 0
	s := w.serve(150, 5*time.Second) // a window of more than 300 is too much for the test environment
	w.planner = func(*wire.PlanResult) {}
	s.capacity = wire.Capacity{}
	report := w.mustRun()
	require.Equal(t, 256, report.Window, "64, 128, 256: all slots are busy then")
	require.Less(t, took(report), 1.2*5*6000/150)
}

// While batches queue the window does not grow.
func TestWindow_StaysWhileBatchesQueue(t *testing.T) {
	t.Parallel()
	w := setup(t, 20_000)
	w.spec.Window = 0
	s := w.serve(30, 5*time.Second)
	s.capacity = wire.Capacity{}
	w.planner = func(*wire.PlanResult) {}
	report := w.mustRun()
	require.Equal(t, limits.LeastAutoWindow, report.Window)
	require.Equal(t, limits.LeastAutoWindow, w.most)
	require.Zero(t, w.commands["signal pool"])
}

// The window goes with workers that are heard of no more, and what the job knows of them lasts over its runs.
func TestWindow_OfWorkersThatVanish(t *testing.T) {
	t.Parallel()
	w := setup(t, 60_000)
	w.spec.Window = 0
	s := w.serve(50, 30*time.Second)
	s.add("host-2", 50, time.Time{})
	w.at(10*time.Minute, func() {
		require.Equal(t, 200, w.query().Window)
		s.slots = s.slots[:50]
	})
	w.process = func(x *execution) {
		s.Process(x)
		w.env.SetContinueAsNewSuggested(len(w.all) > 1500 && w.runs == 1)
	}
	report := w.mustRun()
	require.Equal(t, 2, w.runs)
	require.Equal(t, 100, report.Window)
}

// A setting takes the place of an automatic window, and back.
func TestSet_AutomaticWindow(t *testing.T) {
	t.Parallel()
	w := setup(t, 20_000)
	w.spec.Window = 0
	w.serve(100, 5*time.Second)
	ten, auto, set, back := 10, 0, false, false
	w.at(12*time.Second, func() {
		w.env.UpdateWorkflow(wire.UpdateSet, "one", accept(t, &set), job.Settings{Window: &ten})
	})
	w.at(60*time.Second, func() {
		require.Equal(t, 10, w.query().Window)
		w.env.UpdateWorkflow(wire.UpdateSet, "two", accept(t, &back), job.Settings{Window: &auto})
	})
	report := w.mustRun()
	require.True(t, set && back)
	require.Equal(t, 200, report.Window)
	between := 0
	for _, x := range w.all {
		if s := x.at.Sub(report.Started).Seconds(); s > 40 && s < 60 {
			between = max(between, x.beside)
		}
	}
	require.Equal(t, 10, between)
}

// wide makes a job whose window takes many legs, each with a small page: of ten batches, nearly all the legs that may
// be open.
func wide(t *testing.T, items int64, window, page int) *world {
	w := setup(t, items)
	// The time of the workflow goes on while legs are opened, and few batches may have ended by then.
	w.pageLimit, w.spec.Window, w.took = page, window, time.Minute
	w.process = uneven
	return w
}

// mostOf is how many executions a workflow had in flight at once.
func (w *world) mostOf() map[string]int {
	type change struct {
		at time.Time
		n  int
	}
	changes := map[string][]change{}
	for _, x := range w.all {
		changes[x.workflow] = append(changes[x.workflow], change{x.at, 1}, change{x.at.Add(x.took), -1})
	}
	most := map[string]int{}
	for id, list := range changes {
		slices.SortStableFunc(list, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), a.n-b.n) })
		flying := 0
		for _, c := range list {
			flying += c.n
			most[id] = max(most[id], flying)
		}
	}
	return most
}

// A window that is wider than a page is shared by many legs: it is used, it is exact, and no leg has more in flight
// than its page has batches.
func TestWindow_OverManyLegs(t *testing.T) {
	t.Parallel()
	w := wide(t, 20_000, 180, 10)
	w.took = time.Minute // the time of the workflow goes on while legs are opened, and none may have ended by then
	process, open := w.process, 0
	w.process = func(x *execution) {
		process(x)
		w.later(x.took/2, func() { open = max(open, len(w.query().OpenLegs)) })
	}
	report := w.mustRun()
	require.Equal(t, 180, w.most)
	require.Greater(t, open, 180/10, "legs that drain, too")
	require.LessOrEqual(t, open, coordinate.OpenLegs)
	for id, most := range w.mostOf() {
		require.LessOrEqual(t, most, wire.FirstPage, id)
	}
	require.LessOrEqual(t, w.commands["signal "+wire.SignalPlaces], (dispatch.MaxHandBacks+1)*report.Legs)
	require.LessOrEqual(t, w.commands["signal "+wire.SignalGrant], (dispatch.MaxHandBacks+1)*report.Legs)
	w.requireAccepted(report)
}

// A job with many open legs stops, and is resumed: every item is done once.
func TestWindow_StopWithManyLegs(t *testing.T) {
	t.Parallel()
	w := wide(t, 20_000, 200, 10)
	open := 0
	w.at(3*time.Minute, func() {
		open = len(w.query().OpenLegs)
		w.stop(job.Stop{})
	})
	report := w.stopped()
	require.Greater(t, open, 18)
	w.requireAccepted(report)
	require.Less(t, report.OK, int64(20_000))
	require.LessOrEqual(t, len(report.Manifests), coordinate.OpenLegs+1)

	again := wide(t, 20_000, 200, 10)
	again.manifests, again.resume = w.manifests, report.Manifests
	again.commits = w.commits // their keys go on
	resumed := again.mustRun()
	require.EqualValues(t, 20_000, resumed.OK)
	require.Equal(t, report.OK, resumed.Resumed)
}

// A job with many open legs continues as new: it waits for them, and the next run has the same window.
func TestWindow_ContinuesAsNewWithManyLegs(t *testing.T) {
	t.Parallel()
	w := wide(t, 20_000, 200, 20)
	process := w.process
	w.process = func(x *execution) {
		process(x)
		w.env.SetContinueAsNewSuggested(w.runs == 1 && x.number > 600)
	}
	report := w.mustRun()
	require.Equal(t, 2, w.runs)
	require.EqualValues(t, 20_000, report.OK)
	require.Equal(t, 200, w.most)
	second := 0
	for _, x := range w.all[len(w.all)-800:] {
		second = max(second, x.beside)
	}
	require.Greater(t, second, 150, "legs that drain hand places back a few at a time")
	w.requireAccepted(report)
}

// However the window is changed, no batch is dispatched beyond it once its legs have heard of it, and all of it is
// used.
func TestWindow_ChangedWithManyLegs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 7))
			w := wide(t, 40_000, 100, 30)
			type change struct {
				at     time.Time
				window int
			}
			var changes []change
			for i := range 8 {
				window := 1 + random.IntN(220)
				if i == 7 {
					window = 20 // less than a page: all of it is used, unless places are lost
				}
				w.at(time.Duration(2+10*i)*time.Minute, func() {
					set := false
					w.env.UpdateWorkflow(wire.UpdateSet, fmt.Sprint(i), accept(t, &set), job.Settings{Window: &window})
					changes = append(changes, change{w.env.Now(), window})
				})
			}
			report := w.runToEnd()
			require.Len(t, changes, 8)
			used := make([]int, len(changes))
			for _, x := range w.all {
				for i, c := range changes {
					heard, end := c.at.Add(5*time.Second), report.Ended.Add(time.Hour)
					if i+1 < len(changes) {
						end = changes[i+1].at
					}
					if x.at.After(heard) && x.at.Before(end) {
						require.LessOrEqual(t, x.beside, c.window, "change %d, %v later", i, x.at.Sub(c.at))
						used[i] = max(used[i], x.beside)
					}
				}
			}
			require.Equal(t, 20, used[7], "%v of %v", used, changes)
			w.requireAccepted(report)
		})
	}
}

// runToEnd is mustRun for a job whose window has changed: it may have had more in flight than it had at first.
func (w *world) runToEnd() job.Report {
	w.t.Helper()
	report, err := w.run()
	require.NoError(w.t, err)
	require.Equal(w.t, job.Completed, report.State)
	require.Zero(w.t, w.flying)
	return report
}

// What the legs of a wide window say of the pool adds up in the job, whichever of them has heard of which worker.
func TestWindow_AutomaticOverManyLegs(t *testing.T) {
	t.Parallel()
	w := wide(t, 40_000, 0, 20)
	s := w.serve(40, 2*time.Minute)
	s.add("host-2", 30, time.Time{})
	s.add("host-3", 30, time.Time{})
	s.slotsOf = map[string]int{"host-1": 40, "host-2": 30, "host-3": 30}
	report := w.mustRun()
	require.Equal(t, 200, report.Window)
	require.Equal(t, 200, w.most)
	w.requireAccepted(report)
}
