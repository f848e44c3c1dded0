package starter

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpan(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{
		0: "0 µs", 3.4e-6: "3.4 µs", 0.0123: "12.3 ms", 1.25: "1.2 s", 42.4: "42 s", 100: "100 s", 119: "119 s", 600: "10 min",
		15_000: "4 h 10 min", 35_999: "10 h 0 min", 200_000: "2 d 8 h", 1e300: "46,296 d 7 h",
	} {
		require.Equal(t, want, span(seconds), "%v", seconds)
	}
}

func TestRound(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1234: "1,230", 56_789: "56,800", 9_999_999: "10,000,000"} {
		require.Equal(t, want, round(n))
	}
	require.Equal(t, "1 batch", plural(1, "batch"))
	require.Equal(t, "2,000 batches", plural(2000, "batch"))
	require.Equal(t, "0 items", plural(0, "item"))
}
