package calltimes_test

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stretchr/testify/require"
)

func TestTimer_String(t *testing.T) {
	t.Parallel()
	var timer calltimes.Timer
	require.Empty(t, timer.String())
	timer.Add(5203 * time.Microsecond)
	require.Equal(t, "5203 12:1", timer.String())
	require.InEpsilon(t, 5203*time.Microsecond, timer.Percentile(95), 0.15)
	timer.Add(0)
	timer.Add(1000 * time.Hour)
	require.Equal(t, "3600000000000 0:1 12:1 40:1", timer.String(), "as long as it likes")
	require.Equal(t, &timer, calltimes.Parse(timer.String()))
}

// What a batch's result has of it is small: a history has many.
func TestTimer_IsSmall(t *testing.T) {
	t.Parallel()
	var batch calltimes.Timer
	for i := range 100_000 {
		batch.Add(time.Duration(20+i%100) * time.Microsecond)
	}
	require.Less(t, len(batch.String()), 40)
}
