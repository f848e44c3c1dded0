package feed

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whoever comes while eight wait, all of them for less than a second, does not wait; when the first has had its second,
// it makes room.
func TestWaiters_Room(t *testing.T) {
	t.Parallel()
	var w waiters
	now := time.Unix(0, 0)
	for n := range mostWaiting {
		require.NotNil(t, w.enter(fmt.Sprint(n), now, now.Add(time.Minute)))
		now = now.Add(10 * time.Millisecond)
	}
	require.Nil(t, w.enter("late", now, now.Add(time.Minute)))
	w.thin(now)
	require.Len(t, w.all, mostWaiting)
	first := w.all[0]
	now = time.Unix(0, 0).Add(fairWait)
	require.NotNil(t, w.enter("late", now, now.Add(time.Minute)))
	require.True(t, first.displaced)
	require.Len(t, w.all, mostWaiting)
	now = now.Add(25 * time.Millisecond)
	w.thin(now)
	require.Len(t, w.all, mostWaiting-2)
	require.Equal(t, "3", w.all[0].client)
	w.thin(now.Add(time.Minute))
	require.Len(t, w.all, mostLong)
	require.False(t, w.all[0].displaced)
}
