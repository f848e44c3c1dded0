package backoff_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stretchr/testify/require"
)

func TestDelay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first time.Duration
		tries int
		want  time.Duration
	}{
		{time.Second, 0, time.Second},
		{time.Second, 1, time.Second},
		{time.Second, 2, 2 * time.Second},
		{time.Second, 6, 32 * time.Second},
		{time.Second, 7, time.Minute},
		{time.Second, math.MaxInt, time.Minute},
		{time.Millisecond, 3, 4 * time.Millisecond},
		{2 * time.Minute, 1, time.Minute},
	} {
		require.Equal(t, c.want, backoff.Delay(c.first, c.tries, time.Minute), "%v", c)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		began := time.Now()
		require.True(t, backoff.Wait(time.Minute, over))
		require.Equal(t, time.Minute, time.Since(began))
		require.True(t, backoff.Wait(0, over))
		require.True(t, backoff.Wait(time.Second, nil))
		time.AfterFunc(time.Second, func() { close(over) })
		began = time.Now()
		require.False(t, backoff.Wait(time.Minute, over))
		require.Equal(t, time.Second, time.Since(began))
		require.False(t, backoff.Wait(0, over), "the end comes first")
	})
}
