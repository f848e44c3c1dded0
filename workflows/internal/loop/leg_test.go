package loop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Executions end at the full hour, whenever they have begun, and run for a minute at least.
func TestLoopLeg_Slices(t *testing.T) {
	t.Parallel()
	hour := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	require.Equal(t, time.Hour, sliceAt(hour))
	require.Equal(t, 20*time.Minute, sliceAt(hour.Add(40*time.Minute)))
	require.Equal(t, time.Minute, sliceAt(hour.Add(59*time.Minute)))
	require.Equal(t, time.Hour+59*time.Second, sliceAt(hour.Add(59*time.Minute+time.Second)))
}
