package calls

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stretchr/testify/require"
)

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]time.Duration{
		0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1000: time.Minute,
	} {
		require.Equal(t, want, retryDelay(time.Second, tries), "tries %d", tries)
	}
	require.Equal(t, limits.MaxBackoff, retryDelay(time.Hour, 1))
}
