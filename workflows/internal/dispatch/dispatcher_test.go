package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]time.Duration{1: 1, 2: 2, 3: 4, 6: 32, 7: 60, 900: 60} {
		require.Equal(t, want*time.Second, retryDelay(time.Second, tries))
	}
	require.Equal(t, time.Minute, retryDelay(time.Minute, 1))
}
