package feedclient

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Exchanges are held back until as many callers have put as were answered together, for a while at most.
func TestHoldFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(nil, Options{})
		defer c.Release()
		held := func() time.Duration {
			if !c.holds() {
				return 0
			}
			return max(0, time.Until(c.hold))
		}
		c.holdFor(1)
		require.Zero(t, held(), "nobody was answered together")
		c.holdFor(16)
		require.Equal(t, gather, held())
		time.Sleep(time.Millisecond)
		for range 15 {
			c.returns()
		}
		require.Equal(t, gather-time.Millisecond, held(), "one may still come")
		c.holdFor(0)
		require.Equal(t, gather-time.Millisecond, held())
		c.holdFor(2)
		require.Equal(t, gather-time.Millisecond, held(), "nobody waits for longer because others were answered meanwhile")
		for range 3 {
			require.NotZero(t, held())
			c.returns()
		}
		require.Zero(t, held(), "all have come")
		c.returns()
		c.holdFor(4)
		require.Equal(t, gather, held(), "who came besides does not count")
		time.Sleep(gather)
		c.holdFor(1)
		require.Zero(t, held(), "they have not come in time")
	})
}

// Nobody is held back for callers that are all there. What lingers anyway is held back for what is left of the hold.
func TestDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, linger := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
			c := New(nil, Options{Linger: linger})
			began := time.Now()
			c.lanes[wanted].queue = []*List{{submitted: began}}
			due := func() time.Duration { return c.due(wanted, time.Now()).Sub(began) }
			require.Equal(t, linger, due())
			c.holdFor(2)
			require.Equal(t, max(linger, gather), due())
			c.returns()
			require.Equal(t, max(linger, gather), due())
			c.returns()
			require.Equal(t, linger, due(), "all have come")
			c.lanes[wanted].queue = nil
			c.Release()
		}
	})
}
