package calls

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The longest of a handler's requests counts, and the batch should end.
func TestWatch_SlowDown(t *testing.T) {
	t.Parallel()
	bubble(t, WatchLimits{}, func(t *testing.T, m *watched) {
		require.Zero(t, m.SlowedDown())
		m.SlowDown(2 * time.Second)
		m.SlowDown(time.Second)
		require.Equal(t, 2*time.Second, m.SlowedDown())
		require.True(t, m.Ending.Load())
		m.SlowDown(-1)
		require.Equal(t, 2*time.Second, m.SlowedDown())
	})
}
