package intake

import (
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// F4: a result that its client has not taken when a session ends does not show any more, wherever it lies.
func TestIntake_F4_ResultsOfASessionThatHasEnded(t *testing.T) {
	t.Parallel()
	in := opened(100)
	put(t, in, "a", 3)
	b, _ := in.Take(most(1, 1000), t0)
	done(in, b, t0)
	b, _ = in.Take(most(2, 1000), t0)
	in.FinishStored(b, &wire.StoredPart{Part: "part"}, t0)
	in.Reset(0, t0)
	results, parts, more := in.Collect("a", t0)
	require.Empty(t, parts)
	require.False(t, more)
	require.Len(t, results, 3)
	for i, r := range results {
		require.Equal(t, wire.ItemResult{Item: int64(i), Session: 1, Discarded: true}, r)
	}
}

// F4: what waits is discarded and counted; what runs is recorded under its own session.
func TestIntake_F4_Reset(t *testing.T) {
	t.Parallel()
	in := opened(100)
	put(t, in, "a", 5)
	b, _ := in.Take(most(2, 1000), t0)
	require.EqualValues(t, 3, in.Reset(0, t0))
	require.EqualValues(t, 2, in.Session())
	require.Zero(t, in.Reset(2, t0), "it has been")
	require.Equal(t, []wire.FeedRange{{First: 2, Count: 3, Session: 1}}, in.TakeDiscarded())
	require.Empty(t, in.TakeDiscarded())
	require.EqualValues(t, 5, put(t, in, "a", 1))

	results, _, _ := in.Collect("a", t0)
	require.Len(t, results, 3)
	for i, r := range results {
		require.True(t, r.Discarded)
		require.EqualValues(t, 2+i, r.Item)
		require.EqualValues(t, 1, r.Session)
	}
	done(in, b, t0)
	results, _, _ = in.Collect("a", t0)
	require.Len(t, results, 2)
	for i, r := range results {
		require.Equal(t, wire.ItemResult{Item: int64(i), Session: 1, Discarded: true}, r, "what ran does not show")
	}
	b, _ = in.Take(most(10, 1000), t0)
	done(in, b, t0)
	results, _, _ = in.Collect("a", t0)
	require.EqualValues(t, 2, results[0].Session)
	items, bytes := in.Backlog()
	require.Zero(t, items)
	require.Zero(t, bytes, "idle")
}
