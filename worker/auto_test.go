package worker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/tuning"
	"github.com/stretchr/testify/require"
)

// autoSlots are a set of one slot with a tuner whose time the test sets.
type autoSlots struct {
	*slotSet
	calls calls.Observer
	now   time.Time
}

func newAutoRoster(t *testing.T) *autoSlots {
	t.Helper()
	r := &autoSlots{slotSet: newSlotSet("worker-1", Options{Slots: 1, Concurrency: autoConcurrency}.withDefaults(), func(slotEvent) {}), now: time.Now()}
	require.NotNil(t, r.tuner)
	r.tuner = tuning.New(1, func() time.Time { return r.now })
	r.calls = r.observed(calls.Unobserved{})
	return r
}

// round makes so many calls at once.
func (r *autoSlots) round(n int, s calls.CallStats) {
	for range n {
		r.calls.CallBegan("job")
	}
	s.Took = 10 * time.Millisecond
	r.now = r.now.Add(s.Took)
	for range n {
		r.calls.CallEnded(s)
	}
}

// B9: a batch has the places of a slot whose number of calls grows, and gives up those that are too many when it
// shrinks.
func TestAuto_B9_PlacesComeAndGo(t *testing.T) {
	t.Parallel()
	r := newAutoRoster(t)
	require.Equal(t, 1, r.wanted(), "one batch, as with one call at once")
	batch, err := r.Take(t.Context(), calls.Occupant{Items: 1000})
	require.NoError(t, err)
	require.Zero(t, r.wanted())
	held := []calls.Place{batch.Place(nil)}
	more := make(chan calls.Place)
	ask := func() { more <- batch.Place(nil) }
	go ask()
	waits := func() bool {
		s := r.slots[0]
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.waiters) == 1
	}
	for r.concurrency() < 16 {
		require.Eventually(t, waits, 10*time.Minute, time.Millisecond)
		r.round(r.concurrency(), calls.CallStats{Items: 1})
		for len(held) < r.concurrency() {
			held = append(held, <-more) // of the new number, without anything else
			go ask()
		}
	}
	require.Equal(t, 16, r.slots[0].busy)
	require.False(t, batch.Crowded())
	require.Equal(t, 16, r.slots[0].health(time.Now(), false).Concurrency)
	require.Equal(t, 16, batch.Describe().Concurrency)
	require.Equal(t, 16, r.capacity().Present())
	require.Equal(t, 256, r.capacity().Concurrency, "it may grow on")

	r.round(1, calls.CallStats{SlowDown: true})
	require.Equal(t, 8, r.concurrency())
	for range 8 {
		require.True(t, batch.Crowded())
	}
	require.False(t, batch.Crowded(), "the others are as many as there should be")
	for _, p := range held[:8] {
		p.Leave()
	}
	require.False(t, batch.Crowded())
	require.Equal(t, 8, r.slots[0].busy, "who waits for another place has none yet")
	held[8].Leave()
	(<-more).Leave()
	for _, p := range held[9:] {
		p.Leave()
	}
	require.Zero(t, r.slots[0].busy)
	require.Empty(t, r.slots[0].executions)
	require.Zero(t, r.slots[0].leaving)
}

// B9: if the handler asks to slow down when too many calls are made at once, fewer are made, and no item has failed.
func TestAuto_B9_SlowsDown(t *testing.T) {
	t.Parallel()
	const most, items = 20, 1500
	f := setup(t)
	f.options.Slots, f.options.Concurrency, f.batch = 1, autoConcurrency, 500
	var atOnce, peak, refused atomic.Int64
	f.serve(Each(func(_ context.Context, n int) (int, error) {
		now := atOnce.Add(1)
		defer atOnce.Add(-1)
		for before := peak.Load(); now > before && !peak.CompareAndSwap(before, now); before = peak.Load() {
		}
		if now > most {
			refused.Add(1)
			return 0, SlowDown(100 * time.Millisecond)
		}
		time.Sleep(3 * time.Millisecond) // what it waits for
		return n, nil
	}))
	var content strings.Builder
	for i := range items {
		fmt.Fprintln(&content, i)
	}
	o := f.flowOf("in.jsonl", content.String())
	require.Equal(t, content.String(), o.output)
	require.Empty(t, o.failures)
	require.Greater(t, peak.Load(), int64(most), "it has tried more")
	require.NotEmpty(t, o.slowDowns)
	require.LessOrEqual(t, f.set.concurrency(), 64)
	require.Less(t, refused.Load(), int64(items/4))
}

// B9: auto is a number of calls like any other to whoever checks options.
func TestAuto_B9_Options(t *testing.T) {
	t.Parallel()
	h := Each(func(_ context.Context, n int) (int, error) { return n, nil })
	require.NoError(t, h.Check(Options{AutoConcurrency: true}))
	require.ErrorContains(t, h.Check(Options{Concurrency: -2}), "Concurrency -2: use 1 to 1000")
}

// B9: the output with a number that is found out meanwhile equals that with one call at once, with items that fail,
// have no result or take their time.
func TestAuto_B9_AsOneByOne(t *testing.T) {
	t.Parallel()
	sizes := []int{1, 10, 2000, 20_000}
	if testing.Short() {
		sizes = sizes[:3]
	}
	for seed, items := range sizes {
		random := seeded(t, uint64(seed))
		salt, batch := random.IntN(1000), int64(1+random.IntN(items))
		var content strings.Builder
		for i := range items {
			fmt.Fprintln(&content, i)
		}
		one := func(_ context.Context, n int) (int, error) {
			switch kind := (n*7919 + salt) % 29; kind {
			case 0:
				return 0, fmt.Errorf("item %d is bad", n)
			case 1:
				return 0, Drop
			case 2, 3, 4:
				time.Sleep(time.Duration(kind) * time.Millisecond / 2) // what it waits for
			}
			return -n, nil
		}
		many := func(ctx context.Context, all []int) ([]int, error) {
			outs, errs := make([]int, len(all)), ItemErrors{}
			for i, n := range all {
				var err error
				if outs[i], err = one(ctx, n); err != nil {
					errs[i] = err
				}
			}
			return outs, errs
		}
		for name, h := range map[string]Handler{"each": Each(one), "batch": Batch(many)} {
			outcomes := map[int]outcome{}
			for _, concurrency := range []int{1, autoConcurrency} {
				f := setup(t)
				f.options.Slots, f.options.Concurrency, f.options.CallItems, f.batch = 2, concurrency, 20, max(batch, int64(items/500))
				f.serve(h)
				o := f.flowOf("in.jsonl", content.String())
				for i := range o.failures {
					o.failures[i].Source = "" // another directory
				}
				outcomes[concurrency] = o
			}
			a, b := outcomes[1], outcomes[autoConcurrency]
			require.Equal(t, a.output, b.output, "%s, %d items", name, items)
			require.Equal(t, a.failures, b.failures, "%s, %d items", name, items)
			require.Equal(t, a.totals.Dropped, b.totals.Dropped)
		}
	}
}
