package starter

import (
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/predict"
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

// 14.12: a range is printed only if it is narrower than a factor of three.
func TestBounds(t *testing.T) {
	t.Parallel()
	estimate := func(low, high float64) predict.Estimate { return predict.Estimate{Value: 10, Low: &low, High: &high} }
	require.Equal(t, " (95 %: 5.0 s to 14 s)", bounds(estimate(5, 14.4)))
	require.Empty(t, bounds(estimate(5, 15)))
	require.Empty(t, bounds(predict.Estimate{Value: 10}))
	var b strings.Builder
	wide := predict.Prediction{Seconds: estimate(1, 20), Sample: predict.Sample{Items: 100, SlowDowns: 1}}
	require.NoError(t, printPrediction(&b, wide))
	require.Contains(t, b.String(), "about 10 s with 0 slots here\n")
	require.Contains(t, b.String(), "too different times for a range of the whole time: try 400 items\n")
	require.Contains(t, b.String(), "1 slow-down request of the handler waited out")
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
