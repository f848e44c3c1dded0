package permits

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"
)

// Batches that finish seldom are reported at once, those that finish in a row together, within a tick.
func TestGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Gather
		waited := func() time.Duration {
			began := time.Now()
			g.Wait(t.Context())
			return time.Since(began)
		}
		for range 100 {
			require.Zero(t, waited(), "one after the other")
			time.Sleep(gatherTick + time.Millisecond)
		}
		require.Zero(t, waited())
		ends := make(chan time.Time, 10)
		for range cap(ends) {
			time.Sleep(time.Millisecond)
			go func() {
				g.Wait(t.Context())
				ends <- time.Now()
			}()
		}
		first := <-ends
		for range cap(ends) - 1 {
			require.Equal(t, first, <-ends, "all in one tick")
		}
		require.Equal(t, gatherTick, waited(), "it follows at once")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 10 {
			began := time.Now()
			g.Wait(ctx)
			require.Zero(t, time.Since(began), "a stop does not wait")
		}
		time.Sleep(gatherTick) // the tick ends
	})
}

// What waits to be reported holds no slot, and each slot comes back once.
func TestPermits_Settle(t *testing.T) {
	t.Parallel()
	p := newPermits(2)
	require.False(t, p.Settle(), "nobody has given up a slot")
	var taken []*sdkworker.SlotPermit
	for range 50 { // far more than twice the slots
		permit := takeSlot(p)
		require.NotNil(t, permit)
		taken = append(taken, permit)
		p.Vacate()
		require.True(t, p.Settle())
	}
	for _, permit := range taken {
		p.ReleaseSlot(released{permit: permit})
	}
	require.Zero(t, p.settled)
	require.Zero(t, p.vacated)
	require.Zero(t, p.batches)
}

// Batches that have come without a permit block nobody.
func TestPermits_SettleWithoutPermits(t *testing.T) {
	t.Parallel()
	p := newPermits(1)
	for range 2 * gathered {
		p.Admitted()
		p.Vacate()
		p.Settle()
	}
	require.NotNil(t, p.TryReserveSlot(nil))
	require.Nil(t, p.TryReserveSlot(nil), "there is one")
}
