package backoff

import (
	"math"
	"testing"
	"time"

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
		require.Equal(t, c.want, Delay(c.first, c.tries, time.Minute), "%v", c)
	}
}
