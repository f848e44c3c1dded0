package feedclient

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// How long callers that were answered together get follows from what most of them needed, within bounds; they get the least again as soon as
// they do not come.
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
		c.holdFor(8)
		require.Equal(t, gatherMost, held(), "nothing is known of them")
		time.Sleep(400 * time.Microsecond)
		come(6)
		require.Equal(t, gatherMost, c.gather, "most are seven of eight")
		come(1)
		c.holdFor(0)
		require.Equal(t, 8, c.expected, "one may still come")
		come(1)
		c.holdFor(8)
		require.Equal(t, 3200*time.Microsecond, held())

		time.Sleep(3 * time.Millisecond)
		c.holdFor(2)
		require.Equal(t, 10, c.expected, "others were answered meanwhile")
		require.Equal(t, 200*time.Microsecond, held(), "nobody waits for longer because of them")
		come(10)
		c.holdFor(8)
		require.Equal(t, gatherMost, held())

		come(6)
		time.Sleep(20 * time.Millisecond)
		c.holdFor(8)
		require.Equal(t, gatherLeast, held(), "too few came")
		time.Sleep(20 * time.Millisecond)
		come(8)
		c.holdFor(8)
		require.Equal(t, gatherMost, held(), "they come late")
	})
}
