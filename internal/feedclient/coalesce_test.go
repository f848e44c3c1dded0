package feedclient

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// How long callers that were answered together get follows from what those before them needed, within bounds.
func TestHoldFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(nil, Options{})
		defer c.Release()
		held := func() time.Duration { return max(0, time.Until(c.hold)) }
		come := func(n int) {
			for range n {
				c.returns()
			}
		}
		c.holdFor(1)
		require.Zero(t, held(), "nobody was answered together")
		c.holdFor(16)
		require.Equal(t, gatherMost, held(), "nothing is known of them")

		time.Sleep(200 * time.Microsecond)
		come(14)
		c.holdFor(0)
		require.Equal(t, 16, c.expected, "two may still come")
		time.Sleep(5 * time.Millisecond)
		c.holdFor(2)
		require.Equal(t, 1600*time.Microsecond, held(), "most came")
		c.holdFor(14)
		require.Equal(t, 16, c.expected, "others were answered meanwhile")
		require.Equal(t, 1600*time.Microsecond, held(), "nobody waits for longer because of them")
		come(16)
		c.holdFor(16)
		require.Equal(t, 3200*time.Microsecond, held(), "all came")
		come(16)
		c.holdFor(16)
		require.Equal(t, gatherMost, held())

		come(13)
		time.Sleep(20 * time.Millisecond)
		c.holdFor(16)
		require.Equal(t, gatherLeast, held(), "too few came")
		time.Sleep(7 * time.Millisecond)
		come(16)
		c.holdFor(16)
		require.Equal(t, gatherMost, held(), "all came a little late")
		time.Sleep(11 * time.Millisecond)
		come(16)
		c.holdFor(16)
		require.Equal(t, gatherLeast, held(), "they came too late")
	})
}

// Nobody is held back for callers that are all there, and nobody for more than gatherMost longer, however often others are woken.
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
			require.Equal(t, max(linger, gatherMost), due())
			c.returns()
			require.Equal(t, max(linger, gatherMost), due())
			c.returns()
			require.Equal(t, linger, due(), "all have come")
			for range 10 {
				c.holdFor(2)
				require.LessOrEqual(t, due(), linger+gatherMost)
				time.Sleep(3 * time.Millisecond)
				c.returns()
				c.returns()
			}
			c.lanes[wanted].queue = nil
			c.Release()
		}
	})
}
