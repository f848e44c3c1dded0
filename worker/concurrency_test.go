package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"
)

// task is what the SDK says of a batch's permit.
type task struct {
	sdkworker.SlotMarkUsedInfo
	sdkworker.SlotReleaseInfo
	permit *sdkworker.SlotPermit
}

func (i task) Permit() *sdkworker.SlotPermit { return i.permit }

// used and ended tell the permits apart.
type used struct {
	sdkworker.SlotMarkUsedInfo
	task
}

func (i used) Permit() *sdkworker.SlotPermit { return i.permit }

type ended struct {
	sdkworker.SlotReleaseInfo
	task
}

func (i ended) Permit() *sdkworker.SlotPermit { return i.permit }

// B9, W12: batches come for permits, take places as they find them, and end in any order. No slot ever makes more calls
// at once than it may, and in the end all permits are there again.
func TestPlaces_AllComeBack(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 10)
	for range 200 {
		slots, concurrency := 1+random.IntN(3), 1+random.IntN(4)
		o := Options{Slots: slots, Concurrency: concurrency}.withDefaults()
		r := newSlotSet("worker-1", o, func(slotEvent) {})
		p := r.permits.Queue()
		var over atomic.Int64
		look := func() {
			for _, s := range r.slots {
				s.mu.Lock()
				if s.busy > concurrency {
					over.Add(1)
				}
				s.mu.Unlock()
			}
		}
		var batches sync.WaitGroup
		for range 1 + random.IntN(20) {
			var once sync.Once
			n, early := 1+random.IntN(60), random.IntN(3) == 0
			batches.Go(func() {
				permit, err := p.ReserveSlot(t.Context(), nil)
				require.NoError(t, err)
				p.MarkSlotUsed(used{task: task{permit: permit}})
				slot, err := r.Take(t.Context(), calls.Occupant{Job: "nightly"})
				require.NoError(t, err)
				enough := make(chan struct{})
				var left atomic.Int64 // calls
				left.Store(int64(n))
				var calling sync.WaitGroup
				for place := slot.Place(enough); place != nil; place = slot.Place(enough) {
					calling.Go(func() {
						for left.Add(-1) >= 0 {
							look()
						}
						once.Do(func() { close(enough) })
						place.Leave()
						place.Leave()
					})
				}
				if early {
					slot.Leave()
				}
				calling.Wait()
				slot.Leave()
				p.Settle()
				p.ReleaseSlot(ended{task: task{permit: permit}})
			})
		}
		batches.Wait()
		require.Zero(t, over.Load(), "%d slots of %d", slots, concurrency)
		for _, s := range r.slots {
			require.Zero(t, s.busy)
			require.Empty(t, s.executions)
		}
		var free []*sdkworker.SlotPermit
		for permit := p.TryReserveSlot(nil); permit != nil; permit = p.TryReserveSlot(nil) {
			free = append(free, permit)
		}
		require.Len(t, free, slots*concurrency)
	}
}

// A batch that has no call left gets no further place, though it asks for one in the same moment.
func TestPlaces_NoneAfterTheLast(t *testing.T) {
	t.Parallel()

	r := newSlotSet("worker-1", Options{Slots: 1, Concurrency: 2}.withDefaults(), func(slotEvent) {})
	slot, err := r.Take(t.Context(), calls.Occupant{})
	require.NoError(t, err)
	enough := make(chan struct{})
	slot.Place(enough).Leave()
	close(enough)
	require.Nil(t, slot.Place(enough))
	require.Empty(t, r.slots[0].executions)
}

// A batch that finds all places taken by others' further calls gets the next one; those who have several give way.
func TestPlaces_ABatchGoesFirst(t *testing.T) {
	t.Parallel()
	r := newSlotSet("worker-1", Options{Slots: 1, Concurrency: 3}.withDefaults(), func(slotEvent) {})
	first, err := r.Take(t.Context(), calls.Occupant{})
	require.NoError(t, err)
	places := []calls.Place{first.Place(nil), first.Place(nil), first.Place(nil)}
	require.False(t, first.Crowded())
	came := make(chan calls.Slot)
	go func() {
		second, err := r.Take(t.Context(), calls.Occupant{})
		require.NoError(t, err)
		came <- second
	}()
	require.Eventually(t, first.Crowded, 10*time.Minute, time.Millisecond)
	enough := make(chan struct{})
	further := make(chan calls.Place)
	go func() { further <- first.Place(enough) }()
	places[0].Leave()
	second := <-came
	require.False(t, first.Crowded())
	close(enough)
	require.Nil(t, <-further)
	for _, p := range append(places[1:], second.Place(nil)) {
		p.Leave()
	}
	require.Zero(t, r.slots[0].busy)
}

// K9: an item that workers may have died of is tried while no other batch, of any job, is in a slot of the worker. What
// comes meanwhile is another worker's.
func TestPlaces_Alone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newSlotSet("worker-1", Options{Slots: 2, Concurrency: 2}.withDefaults(), func(slotEvent) {})
		take := func(o calls.Occupant) <-chan calls.Slot {
			came := make(chan calls.Slot, 1)
			go func() {
				if slot, err := r.Take(t.Context(), o); err == nil {
					came <- slot
				} else {
					require.ErrorIs(t, err, calls.ErrNoSlot)
					close(came)
				}
			}()
			synctest.Wait()
			return came
		}
		before := <-take(calls.Occupant{})
		alone, next := take(calls.Occupant{Alone: true}), take(calls.Occupant{Alone: true})
		began := time.Now()
		require.Nil(t, <-take(calls.Occupant{}))
		require.Equal(t, placeWait, time.Since(began))
		require.Empty(t, alone)
		require.Zero(t, r.wanted(), "the worker asks for nothing")

		before.Leave()
		synctest.Wait()
		require.Equal(t, 1, len(alone)+len(next), "one of them")
		if len(alone) == 0 {
			alone, next = next, alone
		}
		kept := take(calls.Occupant{})
		(<-alone).Leave()
		(<-next).Leave()
		require.NotNil(t, <-kept)
		require.NotZero(t, r.wanted())

		// What does not leave is put up with.
		began = time.Now()
		alone = take(calls.Occupant{Alone: true})
		require.NotNil(t, <-alone)
		require.Equal(t, aloneWait, time.Since(began))
	})
}

// K9: one that is given up before it has a place keeps nobody out.
func TestPlaces_AloneGivenUp(t *testing.T) {
	t.Parallel()
	r := newSlotSet("worker-1", Options{Slots: 1, Concurrency: 2}.withDefaults(), func(slotEvent) {})
	_, err := r.Take(t.Context(), calls.Occupant{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Take(ctx, calls.Occupant{Alone: true})
	require.ErrorIs(t, err, context.Canceled)
	_, err = r.Take(t.Context(), calls.Occupant{})
	require.NoError(t, err)
}

// B9, W12: a batch that gets no place in due time is another worker's.
func TestPlaces_NoneInDueTime(t *testing.T) {
	t.Parallel()
	for concurrency := 1; concurrency <= 2; concurrency++ {
		for alone, wait := range map[bool]time.Duration{false: placeWait, true: aloneWait + placeWait} {
			synctest.Test(t, func(t *testing.T) {
				r := newSlotSet("worker-1", Options{Slots: 1, Concurrency: concurrency}.withDefaults(), func(slotEvent) {})
				first, err := r.Take(t.Context(), calls.Occupant{})
				require.NoError(t, err)
				for range concurrency {
					first.Place(nil)
				}
				began := time.Now()
				_, err = r.Take(t.Context(), calls.Occupant{Alone: alone})
				require.ErrorIs(t, err, calls.ErrNoSlot)
				require.Equal(t, wait, time.Since(began))
				require.False(t, first.Crowded())
			})
		}
	}
}

// A batch goes to the slot that has least to do, also if it has to wait there, and a slot asks for another one once it
// has fewer items left than calls at once.
func TestPlaces_LeastToDo(t *testing.T) {
	t.Parallel()
	r := newSlotSet("worker-1", Options{Slots: 2, Concurrency: 4}.withDefaults(), func(slotEvent) {})
	admit := func(items int64) *execution {
		batch, changed := r.admit(calls.Occupant{Items: items}, false)
		require.NotNil(t, batch)
		require.Nil(t, changed)
		return batch
	}
	require.Equal(t, 8, r.wanted())
	large, small := admit(100), admit(50)
	require.NotEqual(t, large.slot, small.slot)
	require.Zero(t, r.wanted())
	for _, batch := range []*execution{large, small} {
		for range 4 {
			require.NotNil(t, batch.Place(nil))
		}
	}
	require.Equal(t, small.slot, admit(10).slot, "it has fewer items left, though neither has a place")
	require.True(t, small.Crowded())
	require.False(t, large.Crowded())

	large.Left(4)
	require.Zero(t, r.wanted())
	large.Left(3)
	require.Equal(t, 1, r.wanted(), "before it has nothing left")
	next := admit(2)
	require.Equal(t, large.slot, next.slot)
	require.Zero(t, r.wanted(), "another one waits already, with more than its calls at once")

	r = newSlotSet("worker-1", Options{Slots: 2, Concurrency: 4}.withDefaults(), func(slotEvent) {})
	large, small = admit(100), admit(50)
	for range 4 {
		require.NotNil(t, small.Place(nil))
	}
	small.Left(1)
	require.NotNil(t, large.Place(nil))
	require.Equal(t, small.slot, admit(10).slot, "the other one has free places, but more items than those are for")
}
