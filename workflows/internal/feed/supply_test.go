package feed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A batch is put in the pool's queue, for workers that are not known yet, if its items have waited.
func TestFeedSupply_LooksAroundWhenItemsWait(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := &feedSupply{}
	require.False(t, s.lookAround(now), "it did not wait")
	s.waited = true
	require.True(t, s.lookAround(now))
	require.False(t, s.lookAround(now.Add(lookAroundEvery-1)), "rarely")
	require.True(t, s.lookAround(now.Add(lookAroundEvery)))
}
