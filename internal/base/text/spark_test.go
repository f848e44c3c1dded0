package text

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpark(t *testing.T) {
	t.Parallel()
	require.Empty(t, Spark(nil))
	require.Empty(t, Spark([]float64{0, 0}))
	require.Equal(t, "█", Spark([]float64{0.1}))
	require.Equal(t, "·▁▃▅▆█·█", Spark([]float64{0, 1, 2.5, 5, 7.4, 10, 0, 9.99}))
}
