package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/run/calls"
)

// busy returns a set of slots in each of which a batch of one of these priorities runs.
func busy(t *testing.T, priorities ...int) (*slotSet, []calls.Slot) {
	t.Helper()
	r := newSlotSet("w", Options{Slots: len(priorities), Concurrency: 1}, func(slotEvent) {})
	var all []calls.Slot
	for _, p := range priorities {
		s, err := r.Take(t.Context(), calls.Occupant{Job: "nightly", Items: 10, Priority: p})
		require.NoError(t, err)
		all = append(all, s)
	}
	return r, all
}

func yielding(all []calls.Slot) (found []int) {
	for i, s := range all {
		if calls.Closed(s.Yield()) {
			found = append(found, i)
		}
	}
	return found
}

// S22: as many batches make room as others of higher priorities wait, those of the lowest priority first, and none for its
// equals.
func TestPriority_WhoMakesRoom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waiting backlog
		want    []int
	}{
		"none waits":        {nil, nil},
		"an equal":          {backlog{3: 10}, []int{1, 4}},
		"one":               {backlog{1: 1}, []int{1}},
		"two of two":        {backlog{1: 1, 2: 1, 5: 7}, []int{1, 4}},
		"more than slots":   {backlog{1: 100}, []int{0, 1, 3, 4}},
		"lower ones":        {backlog{5: 100}, nil},
		"between":           {backlog{4: 3}, []int{1}},
		"high for all of 3": {backlog{2: 4}, []int{0, 1, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, all := busy(t, 3, 5, 1, 3, 4)
			require.EqualValues(t, len(c.want), r.yield(c.waiting))
			require.Equal(t, c.want, yielding(all))
		})
	}
}

// S22: while batches that make room still have calls in hand, no others make room for the same that wait.
func TestPriority_RoomIsMadeOnce(t *testing.T) {
	t.Parallel()
	r, all := busy(t, 3, 3, 3, 3)
	for range 3 {
		r.yield(backlog{1: 2})
		require.Equal(t, []int{0, 1}, yielding(all))
	}
	require.EqualValues(t, 1, r.yield(backlog{1: 3}), "another one waits")
	all[0].Leave()
	require.Zero(t, r.yield(backlog{1: 2}))
	require.EqualValues(t, 1, r.yield(backlog{1: 3}), "what has left has made its room")
	require.Equal(t, []int{0, 1, 2, 3}, yielding(all))
}

// S22: the server is asked only while no slot is free and a batch could make room, and not again until its answer can have
// changed.
func TestPriority_WhenItAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, all := busy(t, 3, 3)
		var asked atomic.Int32
		var answer atomic.Pointer[backlog] // nil: there is none
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.makeRoom(ctx, func(context.Context) (backlog, error) {
				asked.Add(1)
				if b := answer.Load(); b != nil {
					return *b, nil
				}
				return nil, errors.New("away")
			})
		}()
		time.Sleep(5*prioritiesEvery + time.Millisecond)
		require.EqualValues(t, 5, asked.Load())
		require.Empty(t, yielding(all), "an error says nothing")
		answer.Store(&backlog{1: 1})
		time.Sleep(prioritiesEvery)
		require.Len(t, yielding(all), 1)
		require.EqualValues(t, 6, asked.Load())
		time.Sleep(prioritiesKnown - time.Second)
		require.EqualValues(t, 6, asked.Load(), "the same answer may come again")
		all[0].Leave()
		time.Sleep(time.Hour)
		require.EqualValues(t, 6, asked.Load(), "a slot is free")
		cancel()
		<-done
	})
}
