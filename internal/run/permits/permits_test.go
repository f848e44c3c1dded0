package permits

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"
)

// marked and released are what the SDK says of a permit.
type marked struct {
	sdkworker.SlotMarkUsedInfo
	permit *sdkworker.SlotPermit
}

func (i marked) Permit() *sdkworker.SlotPermit { return i.permit }

type released struct {
	sdkworker.SlotReleaseInfo
	permit *sdkworker.SlotPermit
}

func (i released) Permit() *sdkworker.SlotPermit { return i.permit }

// takeSlot takes a slot for a batch that has come; nil if there is none.
func takeSlot(s *Permits) *sdkworker.SlotPermit {
	permit := s.TryReserveSlot(nil)
	if permit != nil {
		s.MarkSlotUsed(marked{permit: permit})
		s.Admitted()
	}
	return permit
}

// running is how many batches are in slots.
func (s *Permits) running() int { return s.batches - s.coming - s.vacated - s.settled }

// newPermits are those of a worker whose slots use one batch for each call.
func newPermits(size int) *Permits {
	var p *Permits
	p = New(size, func() int { return size - max(0, p.running()) })
	return p
}

// W12: a worker takes a batch when a slot is free for it, or the calls of one are done; the others stay in the queue.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := newPermits(2)
	require.Equal(t, 4+gathered, s.MaxSlots())
	first, second := takeSlot(s), takeSlot(s)
	require.NotNil(t, first)
	require.NotNil(t, second)
	require.Nil(t, takeSlot(s), "both run")

	s.Vacate()
	third := takeSlot(s)
	require.NotNil(t, third, "one's calls are done")
	require.Nil(t, takeSlot(s))
	s.ReleaseSlot(released{permit: first})
	require.Nil(t, takeSlot(s), "its slot is the third's now")
	s.Vacate()
	s.ReleaseSlot(released{permit: second})
	fourth := takeSlot(s)
	require.NotNil(t, fourth, "it has ended")

	s.Vacate()
	s.Vacate()
	fifth, sixth := takeSlot(s), takeSlot(s)
	require.NotNil(t, fifth)
	require.NotNil(t, sixth)
	s.Vacate()
	require.Nil(t, takeSlot(s), "no more than two are past their calls")
	s.Vacate()
	for _, p := range []*sdkworker.SlotPermit{third, fourth, fifth, sixth} {
		s.ReleaseSlot(released{permit: p})
	}
	require.NotNil(t, takeSlot(s))
	require.NotNil(t, takeSlot(s))
	require.Nil(t, takeSlot(s), "all are back, and no more")
}

// A poll that ends without a batch has nothing to do with batches that are past their calls.
func TestSlots_Unused(t *testing.T) {
	t.Parallel()
	s := newPermits(1)
	first := takeSlot(s)
	s.Vacate()
	polling := s.TryReserveSlot(nil)
	require.NotNil(t, polling)
	s.ReleaseSlot(released{permit: polling})
	second := takeSlot(s)
	require.NotNil(t, second)
	s.ReleaseSlot(released{permit: first})
	require.Nil(t, takeSlot(s))
	s.Vacate()
	s.ReleaseSlot(released{permit: second})
	require.NotNil(t, takeSlot(s))
}

func TestSlots_Wait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newPermits(1)
		queue := s.Queue()
		require.NotNil(t, takeSlot(s))
		got := make(chan *sdkworker.SlotPermit, 1)
		go func() {
			permit, err := queue.ReserveSlot(t.Context(), nil)
			if err == nil {
				got <- permit
			}
		}()
		synctest.Wait()
		require.Empty(t, got)
		s.Vacate()
		synctest.Wait()
		require.Len(t, got, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := queue.ReserveSlot(ctx, nil)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// Shut permits are given to nobody, eagerly or not; who waits gets one when they are opened.
func TestPermits_Shut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newPermits(2)
		s.Shut()
		require.Nil(t, s.TryReserveSlot(nil))
		got := make(chan error, 1)
		go func() {
			_, err := s.Queue().ReserveSlot(t.Context(), nil)
			got <- err
		}()
		synctest.Wait()
		s.Wake()
		synctest.Wait()
		require.Empty(t, got)
		s.Open()
		require.NoError(t, <-got)
		require.NotNil(t, s.TryReserveSlot(nil))
	})
}

// A batch that starts eagerly needs no permit of a poll, but no more of them start than the slots can use.
func TestPermits_Eager(t *testing.T) {
	t.Parallel()
	s := newPermits(2)
	queue := s.Queue()
	poll, err := queue.ReserveSlot(t.Context(), nil)
	require.NoError(t, err)
	other, err := queue.ReserveSlot(t.Context(), nil)
	require.NoError(t, err)
	first := takeSlot(s)
	require.NotNil(t, first, "the polls have brought nothing yet")
	reserved := s.TryReserveSlot(nil)
	require.NotNil(t, reserved)
	require.Nil(t, s.TryReserveSlot(nil), "both slots have a batch, or will have")
	s.ReleaseSlot(released{permit: reserved})
	second := takeSlot(s)
	require.NotNil(t, second)
	require.Nil(t, takeSlot(s))
	for _, p := range []*sdkworker.SlotPermit{first, second} {
		s.Vacate()
		s.ReleaseSlot(released{permit: p})
	}
	s.ReleaseSlot(released{permit: poll})
	s.ReleaseSlot(released{permit: other})
	require.Zero(t, queue.polls)
	require.Zero(t, s.eager)
	require.Zero(t, s.batches)
}

// V1: each task queue has polls of its own, so that none keeps batches of another one from a slot that is free.
func TestQueues(t *testing.T) {
	t.Parallel()
	s := newPermits(1)
	first, second := s.Queue(), s.Queue()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	poll, err := first.ReserveSlot(t.Context(), nil)
	require.NoError(t, err)
	_, err = first.ReserveSlot(ended, nil)
	require.ErrorIs(t, err, context.Canceled, "there is one slot")
	other, err := second.ReserveSlot(t.Context(), nil)
	require.NoError(t, err)
	second.MarkSlotUsed(marked{permit: other})
	s.Admitted()
	first.ReleaseSlot(released{permit: poll}) // it has brought nothing
	_, err = first.ReserveSlot(ended, nil)
	require.ErrorIs(t, err, context.Canceled, "the slot is taken")
	s.Vacate()
	second.ReleaseSlot(released{permit: other})
	require.Zero(t, first.polls)
	require.Zero(t, second.polls)
	_, err = first.ReserveSlot(t.Context(), nil)
	require.NoError(t, err)
}
