package loops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tester does with a slot what Process does, one tick after the other.
type tester struct {
	t     *testing.T
	clock wire.Clock
	dir   store.Dir
	body  func(wire.Tick) error // takes its time; nil: none
	after func()                // called between two ticks, nil: nothing

	ran   []wire.Tick
	at    []time.Time // when each began
	entry wire.Entry
	lines []byte // that the sink does not have yet
}

// execute runs ticks until there are so many more, or soon is closed, and ends as Process does.
func (w *tester) execute(ticks int, soon <-chan struct{}) job.LoopSlot {
	w.t.Helper()
	s := w.begin(soon)
	defer s.Close()
	w.run(s, ticks)
	require.NoError(w.t, w.write(s))
	require.NoError(w.t, s.Commit(&w.entry))
	final := s.Final()
	done, rest := s.Split()
	require.Equal(w.t, w.entry.Count, done.Count)
	require.Equal(w.t, final.Next, rest.First)
	require.Equal(w.t, final.Next, done.End())
	require.EqualValues(w.t, wire.Endless, rest.End())
	w.clock.LoopSlot = final
	return final
}

func (w *tester) begin(soon <-chan struct{}) *Slot {
	batch := wire.Batch{Source: w.clock.Slot, First: w.clock.Next, Count: wire.Endless - w.clock.Next}.Sealed()
	w.entry = wire.Entry{Batch: batch}
	w.entry.Count = 0
	var s *Slot
	s = New(w.t.Context(), w.clock, batch, Options{
		Ref: wire.Ref{Job: "probe", Run: "run"}, Dir: w.dir, Soon: soon,
		Entry: func() wire.Entry { return w.entry }, Write: func() error { return w.write(s) },
	})
	return s
}

func (w *tester) write(s *Slot) (err error) {
	if len(w.lines) > 0 {
		w.lines, err = s.Results(w.t.Context(), w.lines)
	}
	return err
}

func (w *tester) run(s *Slot, ticks int) {
	w.t.Helper()
	var chunk records.Chunk
	for range ticks {
		err := s.Next(&chunk, 1000, 1<<20)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(w.t, err)
		require.Len(w.t, chunk.Items, 1, "never two at a time")
		var tick wire.Tick
		require.NoError(w.t, json.Unmarshal(chunk.Items[0].Raw, &tick))
		w.ran, w.at = append(w.ran, tick), append(w.at, time.Now())
		if w.body != nil {
			err = w.body(tick)
		}
		if w.entry.Count++; err != nil {
			w.entry.Failed++
		} else {
			w.entry.OK++
			w.lines = append(w.lines, fmt.Sprintf("%d\n", tick.Tick)...)
		}
		s.Done(chunk.Items)
		if w.after != nil {
			w.after()
		}
	}
}

func (w *tester) numbers() []int64 {
	var all []int64
	for _, tick := range w.ran {
		all = append(all, tick.Tick)
	}
	return all
}

func row(from, to int64) []int64 {
	var all []int64
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return all
}

// L2: the first tick is due at once, then one each interval: run k begins at start + k·interval, and the error does not
// grow.
func TestSlot_FixedRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const every = 500 * time.Millisecond
		w := &tester{t: t, clock: wire.Clock{Every: every, LoopSlot: job.LoopSlot{Slot: 3}}, body: func(wire.Tick) error { time.Sleep(120 * time.Millisecond); return nil }}
		start := time.Now()
		final := w.execute(20, nil)
		for k := range 20 {
			due := start.Add(time.Duration(k) * every)
			require.Equal(t, due, w.at[k], "run %d", k)
			require.Equal(t, wire.Tick{Slot: 3, Tick: int64(k), Due: due.UTC()}, w.ran[k])
		}
		require.EqualValues(t, 20, final.Next)
		require.Zero(t, final.Stats.Missed)
		require.Zero(t, final.Stats.LateMax)
	})
}

// L2: a tick that takes 2.3 s misses four others. They follow at once, back to back, none is skipped, and the pace is
// kept afterwards.
func TestSlot_MissedTicksAreMadeUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const every = 500 * time.Millisecond
		w := &tester{t: t, clock: wire.Clock{Every: every}, body: func(tick wire.Tick) error {
			if tick.Tick == 2 {
				time.Sleep(2300 * time.Millisecond)
			} else {
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		}}
		start := time.Now()
		final := w.execute(10, nil)
		require.Equal(t, row(0, 10), w.numbers())
		long := start.Add(2*every + 2300*time.Millisecond)
		for i := range 4 {
			require.Equal(t, long.Add(time.Duration(i)*10*time.Millisecond), w.at[3+i], "tick %d", 3+i)
			require.Equal(t, start.Add(time.Duration(3+i)*every).UTC(), w.ran[3+i].Due)
		}
		for k := 7; k < 10; k++ {
			require.Equal(t, start.Add(time.Duration(k)*every), w.at[k])
		}
		require.EqualValues(t, 4, final.Stats.Missed)
		require.Equal(t, 1800*time.Millisecond, final.Stats.LateMax)
		require.Zero(t, final.Skipped)
	})
}

// L2: with skip, they are left out, and counted; a tick keeps the number of its time.
func TestSlot_MissedTicksAreSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const every = 500 * time.Millisecond
		w := &tester{t: t, clock: wire.Clock{Every: every, Skip: true}, body: func(tick wire.Tick) error {
			if tick.Tick == 2 {
				time.Sleep(2300 * time.Millisecond)
			}
			return nil
		}}
		start := time.Now()
		final := w.execute(6, nil)
		require.Equal(t, []int64{0, 1, 2, 7, 8, 9}, w.numbers())
		for i, tick := range w.ran {
			require.Equal(t, start.Add(time.Duration(tick.Tick)*every), w.at[i], "on time")
		}
		require.EqualValues(t, 4, final.Skipped)
		require.EqualValues(t, 6, final.Next)
		require.Zero(t, final.Stats.Missed)
	})
}

// L1: without an interval a tick begins when the one before has ended; ids begin at 0.
func TestSlot_BackToBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tester{t: t, body: func(wire.Tick) error { time.Sleep(70 * time.Millisecond); return nil }}
		start := time.Now()
		final := w.execute(100, nil)
		require.Equal(t, row(0, 100), w.numbers())
		require.Equal(t, 100*70*time.Millisecond, time.Since(start))
		require.EqualValues(t, 100, final.Stats.OK)
	})
}

// L3: a slot that waits for its tick ends at once when it is to; so does one that runs back to back, between two ticks
// (L1).
func TestSlot_EndsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		soon := make(chan struct{})
		time.AfterFunc(7*time.Second, func() { close(soon) })
		w := &tester{t: t, clock: wire.Clock{Every: 30 * time.Second}}
		start := time.Now()
		require.EqualValues(t, 1, w.execute(9, soon).Next)
		require.Equal(t, 7*time.Second, time.Since(start))

		stopped := make(chan struct{})
		close(stopped)
		w = &tester{t: t, clock: wire.Clock{Every: 30 * time.Second}}
		require.Zero(t, w.execute(9, stopped).Next, "stopped before its first tick, it runs none")
		soon = make(chan struct{})
		w = &tester{t: t, body: func(tick wire.Tick) error {
			if tick.Tick == 3 {
				close(soon)
			}
			return nil
		}}
		require.EqualValues(t, 4, w.execute(9, soon).Next)
	})
}

// L5: after a drain the next execution, wherever it runs, goes on with the next tick, at its time: the base is kept.
func TestSlot_TheNextExecutionIsExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const every = 500 * time.Millisecond
		w := &tester{t: t, clock: wire.Clock{Every: every}}
		start := time.Now()
		for range 5 {
			soon := make(chan struct{})
			time.AfterFunc(1700*time.Millisecond, func() { close(soon) })
			w.execute(1000, soon)
			time.Sleep(900 * time.Millisecond) // nobody runs it
		}
		final := w.execute(20, nil)
		require.Equal(t, row(0, int64(len(w.ran))), w.numbers())
		for k, tick := range w.ran {
			require.Equal(t, start.Add(time.Duration(k)*every).UTC(), tick.Due)
			require.False(t, w.at[k].Before(tick.Due))
		}
		require.Equal(t, w.ran[len(w.ran)-1].Due, w.at[len(w.at)-1].UTC(), "it has caught up")
		require.Positive(t, final.Stats.Missed)
		require.Zero(t, final.Stats.Repeated)
		require.Zero(t, final.Doubt)
	})
}

// L2: a loop that is resumed begins its time anew: what would have been due meanwhile is not made up.
func TestSlot_WithoutABaseTheNextTickIsDueAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &tester{t: t, clock: wire.Clock{Every: time.Second, LoopSlot: job.LoopSlot{Next: 40, Skipped: 2}}}
		start := time.Now()
		final := w.execute(3, nil)
		require.Equal(t, []int64{42, 43, 44}, w.numbers())
		require.Equal(t, []time.Time{start, start.Add(time.Second), start.Add(2 * time.Second)}, w.at)
		require.Zero(t, final.Stats.Missed)
	})
}

// L5: an execution that is lost counts as far as its last heartbeat says; every tick that it may have begun after that
// is counted as repeated when it runs again.
func TestSlot_LostExecutionsAreCountedAsRepeated(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprint(every, keep), func(t *testing.T) {
				t.Parallel()
				dir := open(t)
				synctest.Test(t, func(t *testing.T) {
					w := &tester{t: t, clock: wire.Clock{Every: every, Keep: keep}, dir: dir}
					w.body = func(wire.Tick) error { time.Sleep(300 * time.Microsecond); return nil }
					for loss := range 6 {
						s := w.begin(nil)
						var last job.LoopSlot
						last = s.State() // at the beginning
						began := time.Now()
						beat := began
						w.after = func() {
							if time.Since(beat) >= BeatTime {
								last, beat = s.State(), time.Now()
							}
						}
						lasts := time.Duration(4000+931*loss) * time.Millisecond
						for time.Since(began) < lasts {
							w.run(s, 1)
						}
						s.Close()
						w.after = nil
						begun := w.clock.Next + w.entry.Count
						require.GreaterOrEqual(t, last.Doubt, begun, "what it has begun may be repeated")
						require.LessOrEqual(t, last.Doubt-begun, 2+3*(begun-w.clock.Next), "and not much more")
						last.Stats.Repeated, last.Unsure = last.Stats.Repeated+last.Unsure, 0
						w.clock.LoopSlot, w.lines = last, nil
						if loss%2 == 0 {
							continue // lost again
						}
						time.Sleep(5 * time.Second)
						final := w.execute(int(last.Doubt-last.Next)+10, nil)
						require.GreaterOrEqual(t, final.Stats.Repeated, w.repeats())
						require.Zero(t, final.Doubt)
						require.EqualValues(t, final.Next, final.Stats.OK)
					}
					require.Positive(t, w.repeats())
					require.Equal(t, row(0, w.clock.Next), slices.Compact(slices.Sorted(slices.Values(w.numbers()))), "none is missing")
				})
			})
		}
	}
}

// repeats is how many ticks have run more than once.
func (w *tester) repeats() int64 {
	runs := map[int64]int64{}
	for _, n := range w.numbers() {
		runs[n]++
	}
	var more int64
	for _, n := range runs {
		more += n - 1
	}
	return more
}

func open(t *testing.T) store.Dir {
	t.Helper()
	var access store.Access
	t.Cleanup(func() { access.Close() })
	dir, err := access.Open(context.Background(), t.TempDir()+string(os.PathSeparator))
	require.NoError(t, err)
	return dir
}

// With an output a part is ready about every ten seconds, also while the next tick is far away, and the last one at the
// end. Its manifest accounts for every tick once, over all executions, whatever became of them.
func TestSlot_PartsOfTenSeconds(t *testing.T) {
	t.Parallel()
	dir := open(t)
	synctest.Test(t, func(t *testing.T) {
		w := &tester{t: t, clock: wire.Clock{Every: time.Second, Keep: true}, dir: dir}
		w.body = func(tick wire.Tick) error {
			if tick.Tick%7 == 3 {
				return errors.New("no")
			}
			return nil
		}
		w.execute(95, nil)
		w.execute(30, nil)
		s := w.begin(nil) // and one that is lost
		w.run(s, 25)
		last := s.State()
		s.Close()
		require.EqualValues(t, 125+20, last.Next, "it counts up to its last part")
		w.clock.LoopSlot, w.lines = last, nil
		final := w.execute(10, nil)
		require.EqualValues(t, 155, final.Next)

		entries, text := shelf(t, dir, final.Head)
		require.Equal(t, slices.Collect(func(yield func(int64) bool) {
			for _, n := range row(0, 155) {
				if n%7 != 3 && !yield(n) {
					return
				}
			}
		}), text, "each result once, in order")
		next := int64(0)
		for _, e := range entries {
			require.Equal(t, next, e.First)
			require.Equal(t, e.Count, e.OK+e.Failed)
			require.LessOrEqual(t, e.Count, int64(12))
			next = e.End()
		}
		require.EqualValues(t, 155, next)
	})

	synctest.Test(t, func(t *testing.T) { // the tick after the first one is an hour away
		w := &tester{t: t, clock: wire.Clock{Every: time.Hour, Keep: true}, dir: dir}
		soon := make(chan struct{})
		s := w.begin(soon)
		go func() {
			time.Sleep(PartTime + time.Second)
			close(soon)
		}()
		w.run(s, 2)
		state := s.State()
		s.Close()
		require.EqualValues(t, 1, state.Next)
		_, text := shelf(t, dir, state.Head)
		require.Equal(t, []int64{0}, text)
	})
}

// Manifests that have been replaced stay as long as their execution runs, and are removed by the next one, before it
// writes its own: nothing stays but the one that each execution began with, whether the one before has ended or was
// lost.
func TestSlot_ReplacedManifestsGo(t *testing.T) {
	t.Parallel()
	dir := open(t)
	synctest.Test(t, func(t *testing.T) {
		w := &tester{t: t, clock: wire.Clock{Every: time.Second, Keep: true}, dir: dir}
		w.execute(600, nil)
		require.Len(t, manifests(t, dir), 60)
		for range 3 { // without a manifest of its own
			w.begin(nil).Close()
		}
		w.execute(1, nil)
		require.Len(t, manifests(t, dir), 2, "one of each execution")

		s := w.begin(nil)
		w.run(s, 300) // and is lost
		last := s.State()
		s.Close()
		require.Len(t, manifests(t, dir), 2+29)
		w.clock.LoopSlot, w.lines = last, nil
		w.execute(30, nil)
		require.Len(t, manifests(t, dir), 3+2, "ten ticks are made up, the others take 20 s")
		w.execute(1, nil)
		require.Len(t, manifests(t, dir), 4+1)

		entries, numbers := shelf(t, dir, w.clock.Head)
		require.Equal(t, row(0, 600+1+290+30+1), numbers)
		require.EqualValues(t, len(numbers), entries[len(entries)-1].End())
	})
}

// A slot does not fail because manifests of the one before cannot be removed: they do no harm.
func TestSlot_ReplacedManifestsThatStay(t *testing.T) {
	t.Parallel()
	dir := &faulty{Dir: open(t)}
	synctest.Test(t, func(t *testing.T) {
		w := &tester{t: t, clock: wire.Clock{Every: time.Second, Keep: true}, dir: dir}
		w.execute(100, nil)
		dir.deletes = errors.New("503 Slow Down")
		w.execute(1, nil)
		require.Len(t, manifests(t, dir), 11)
		_, numbers := shelf(t, dir, w.clock.Head)
		require.Equal(t, row(0, 101), numbers)
	})
}

// An execution writes no manifest before those are gone that the one before has replaced: if it is lost, the next one
// has the same head, and removes them.
func TestSlot_RemovesBeforeItsFirstManifest(t *testing.T) {
	t.Parallel()
	dir := &faulty{Dir: open(t)}
	synctest.Test(t, func(t *testing.T) {
		w := &tester{t: t, clock: wire.Clock{Every: time.Second, Keep: true}, dir: dir}
		w.execute(100, nil)
		dir.held = make(chan struct{})
		lost := w.begin(nil)
		w.run(lost, 1)
		lost.Close() // is not held up
		w.lines = nil

		s := w.begin(nil)
		defer s.Close()
		w.run(s, 1)
		require.NoError(t, w.write(s))
		committed := make(chan error, 1)
		go func() { committed <- s.Commit(&w.entry) }()
		synctest.Wait()
		require.Empty(t, committed)
		require.Len(t, manifests(t, dir), 10)
		close(dir.held)
		require.NoError(t, <-committed)
		require.Len(t, manifests(t, dir), 2)
	})
}

// L5: a worker that is cut off from the server, or was suspended, and not from the store, removes nothing that its
// successor builds on, however long it goes on; nor does the successor remove anything of that.
func TestSlot_CutOffExecutions(t *testing.T) {
	t.Parallel()
	dir := open(t)
	synctest.Test(t, func(t *testing.T) {
		first := &tester{t: t, clock: wire.Clock{Every: time.Second, Keep: true}, dir: dir}
		first.execute(50, nil)
		s := first.begin(nil)
		defer s.Close()
		first.run(s, 45)
		last := s.State() // the last heartbeat that has arrived
		require.EqualValues(t, 50+40, last.Next)
		first.run(s, int(2*limits.DefaultExpiry/time.Second)+30)

		second := &tester{t: t, clock: first.clock, dir: dir}
		second.clock.LoopSlot = last
		successor := second.begin(nil)
		defer successor.Close()
		second.run(successor, 15)
		first.run(s, 60)
		require.NoError(t, first.write(s))
		require.NoError(t, s.Commit(&first.entry))
		second.run(successor, 15)
		_, numbers := shelf(t, dir, successor.State().Head)
		require.Equal(t, row(0, successor.State().Next), numbers)
		require.Greater(t, successor.State().Next, last.Next)
	})
}

// L5: an execution that fails, because a manifest cannot be written, has done what its last part says: the next one
// begins there, and the ticks that run again are counted exactly.
func TestSlot_FailedExecutions(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{0, time.Second} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			t.Parallel()
			dir := &faulty{Dir: open(t)}
			synctest.Test(t, func(t *testing.T) {
				w := &tester{t: t, clock: wire.Clock{Every: every, Keep: true}, dir: dir, body: func(wire.Tick) error { time.Sleep(70 * time.Millisecond); return nil }}
				s := w.begin(nil)
				w.run(s, 35)
				for s.State().Head == "" || s.State().Next == w.entry.Count {
					w.run(s, 1)
				}
				head := s.State().Head
				dir.puts = errors.New("503 Slow Down")
				var chunk records.Chunk
				var err error
				for err == nil {
					if err = s.Next(&chunk, 1, 1<<20); err == nil {
						w.entry.Count, w.entry.OK = w.entry.Count+1, w.entry.OK+1
						w.body(wire.Tick{})
						s.Done(chunk.Items)
					}
				}
				dir.puts = nil
				require.ErrorContains(t, err, "503 Slow Down")
				broken := s.Broken()
				s.Close()
				require.Equal(t, head, broken.Head)
				require.Positive(t, broken.Next)
				require.Equal(t, w.entry.Count, broken.Doubt, "all that it has begun")
				require.Less(t, broken.Next, broken.Doubt)
				require.Zero(t, broken.Unsure)
				w.clock.LoopSlot, w.lines = broken, nil
				final := w.execute(int(broken.Doubt-broken.Next)+20, nil)
				require.Equal(t, broken.Doubt-broken.Next, final.Stats.Repeated)
				require.Zero(t, final.Doubt)
				_, numbers := shelf(t, dir, final.Head)
				require.Equal(t, row(0, final.Next), numbers)
			})
		})
	}

	synctest.Test(t, func(t *testing.T) { // without an output all that has ended is recorded
		w := &tester{t: t, clock: wire.Clock{Every: time.Second}}
		s := w.begin(nil)
		defer s.Close()
		w.run(s, 5)
		require.NoError(t, s.Next(new(records.Chunk), 1, 1<<20)) // one is in hand
		broken := s.Broken()
		require.EqualValues(t, 5, broken.Next)
		require.EqualValues(t, 6, broken.Doubt)
	})
}

// faulty is a store that cannot write or remove objects, or not yet, if a test says so.
type faulty struct {
	store.Dir
	puts, deletes error
	held          chan struct{} // removals wait until it is closed; nil: they do not
}

func (f *faulty) Put(ctx context.Context, key string, data []byte) error {
	if f.puts != nil {
		return f.puts
	}
	return f.Dir.Put(ctx, key, data)
}

func (f *faulty) Delete(ctx context.Context, key string) error {
	if f.deletes != nil {
		return f.deletes
	}
	if f.held != nil {
		select {
		case <-f.held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return f.Dir.Delete(ctx, key)
}

func manifests(t *testing.T, dir store.Dir) (keys []string) {
	t.Helper()
	for info, err := range dir.List(t.Context(), "run/manifests/") {
		require.NoError(t, err)
		keys = append(keys, info.Key)
	}
	return keys
}

// shelf returns what a manifest and those before it account for: the entries, and the numbers in their results.
func shelf(t *testing.T, dir store.Dir, head string) (entries []ledger.OwnedEntry, numbers []int64) {
	t.Helper()
	links, err := ledger.Chain(t.Context(), dir, []string{head})
	require.NoError(t, err)
	require.NoError(t, ledger.Entries(t.Context(), dir, links, func(e ledger.OwnedEntry) error {
		entries = append(entries, e)
		if e.Bytes == 0 {
			return nil
		}
		data, err := dir.Get(t.Context(), ledger.ResultsKey(e.Owner, e.Entry))
		require.NoError(t, err)
		for line := range strings.Lines(string(data)) {
			n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			require.NoError(t, err)
			numbers = append(numbers, n)
		}
		return nil
	}))
	return entries, numbers
}
