package pool

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

func worker(name string, slots, calls int, last int64) wire.PoolWorker {
	return wire.PoolWorker{Name: name, Capacity: wire.Capacity{Slots: slots, Concurrency: calls}, Last: last}
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	var none Workers
	all, forgotten := none.With(worker("b", 4, 1, 100), worker("a", 2, 50, 100), worker("", 9, 9, 100), worker("unknown", 0, 0, 100))
	require.False(t, forgotten)
	require.Equal(t, Workers{worker("a", 2, 50, 100), worker("b", 4, 1, 100)}, all)
	require.Empty(t, none, "nothing is changed in place")
	require.EqualValues(t, 104, all.Calls())
	slots, calls := all.Slots()
	require.Equal(t, []int{6, 50}, []int{slots, calls})

	later, _ := all.With(worker("a", 3, 50, 99), worker("b", 5, 1, 101))
	require.Equal(t, Workers{worker("a", 2, 50, 100), worker("b", 5, 1, 101)}, later, "the latest news count")
	require.Equal(t, 4, all[1].Slots)
}

// A worker drops out once another one has been heard of ten minutes later; while nobody is heard of, nobody does.
func TestWorkers_DropOut(t *testing.T) {
	t.Parallel()
	all := Workers{worker("a", 2, 1, 1000), worker("b", 2, 1, 1600)}
	_, forgotten := all.With()
	require.False(t, forgotten)
	left, forgotten := all.With(worker("b", 2, 1, 1601))
	require.True(t, forgotten)
	require.Equal(t, Workers{worker("b", 2, 1, 1601)}, left)
	left, forgotten = left.With(worker("a", 2, 1, 1000))
	require.False(t, forgotten, "old news of one that is forgotten")
	require.Len(t, left, 1)
}

func TestWorkers_AreBounded(t *testing.T) {
	t.Parallel()
	var all Workers
	for i := range 1000 {
		all, _ = all.With(worker(fmt.Sprint("host-", i*7919%1000), 1, 1, int64(i/2)))
	}
	require.Len(t, all, MaxWorkers)
	require.True(t, slices.IsSortedFunc(all, func(a, b wire.PoolWorker) int { return int(slices.Compare([]byte(a.Name), []byte(b.Name))) }))
	for _, w := range all {
		require.GreaterOrEqual(t, w.Last, int64(499-MaxWorkers/2), "those heard of last stay")
	}
}

func TestView_Window(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		workers Workers
		items   int64
		want    int
	}{
		{"nothing known", nil, 0, limits.LeastAutoWindow},
		{"few slots", Workers{worker("a", 8, 1, 1)}, 100, limits.LeastAutoWindow},
		{"many slots", Workers{worker("a", 100, 1, 1), worker("b", 100, 1, 1)}, 100, 400},
		{"many calls, batches of one item", Workers{worker("a", 4, 50, 1)}, 1, 400},
		{"a batch keeps a slot busy", Workers{worker("a", 4, 50, 1)}, 50, limits.LeastAutoWindow},
		{"half of it", Workers{worker("a", 40, 50, 1)}, 25, 160},
		{"too many", Workers{worker("a", 1000, 1000, 1)}, 1, limits.MaxWindow},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := View{Workers: c.workers, Items: c.items}
			require.Equal(t, c.want, v.Window())
		})
	}
}

func TestView_Grows(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	v := View{Changed: now}
	v.Hear(worker("a", 4, 1, 1000))
	v.Waited(now.Add(settle))
	require.Equal(t, 128, v.Window())
	v.Waited(now.Add(settle - 1))
	require.Equal(t, 128, v.Window(), "these were dispatched when it had just grown")
	v.Waited(now.Add(time.Minute))
	require.Equal(t, 256, v.Window())
	v.Hear(worker("b", 100, 1, 1500))
	require.Equal(t, 256, v.Window())
	v.Hear(worker("c", 100, 1, 1500))
	require.Equal(t, 408, v.Window(), "another worker has come")
	v.Hear(worker("b", 100, 1, 2000))
	require.Equal(t, 400, v.Window(), "one has gone")
	for range 20 {
		v.Waited(now.Add(time.Hour))
	}
	require.Equal(t, limits.MaxWindow, v.Window())
	v.Hear(worker("b", 100, 1, 3000))
	require.Equal(t, 200, v.Window(), "what it has grown by goes with the workers that have gone")
}

func TestSample(t *testing.T) {
	t.Parallel()
	const runs = 5 * time.Second
	at := time.Unix(1000, 0)
	var s Sample
	add := func(n int, wait time.Duration) {
		for range n {
			s.Add(at, at.Add(wait), at.Add(wait+runs))
		}
	}
	began := at
	add(100, 0)
	require.Zero(t, s.Waiting(), "all at once: the others of them may be queueing")
	at = at.Add(runs)
	add(1, 0)
	require.Equal(t, began, s.Waiting())

	began = at
	add(25, atOnce+1)
	add(74, atOnce)
	at = at.Add(runs)
	add(1, 0)
	require.Equal(t, began, s.Waiting(), "three of four")

	add(26, atOnce+1)
	add(73, atOnce)
	at = at.Add(runs)
	add(1, 0)
	require.Zero(t, s.Waiting(), "too many have queued")

	add(leastSample-2, 0)
	at = at.Add(runs)
	add(1, 0)
	require.Zero(t, s.Waiting(), "too few")
	add(1, 0)
	require.NotZero(t, s.Waiting())

	s.Reported(at.Add(1))
	require.Zero(t, s.Waiting())
	add(leastSample, 0)
	at = at.Add(runs)
	add(leastSample-1, 0)
	require.Zero(t, s.Waiting(), "some were dispatched before")
	at = at.Add(runs)
	add(1, 0)
	require.NotZero(t, s.Waiting())
}
