package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpeed(t *testing.T) {
	t.Parallel()
	var s speed
	require.Zero(t, s.rate())
	s.add(500, 50*time.Millisecond)
	s.add(500, 30*time.Millisecond)
	require.EqualValues(t, 1000*1_000_000/80, s.rate(), "both count")
	s.add(1000, 40*time.Millisecond)
	require.EqualValues(t, 1000*1_000_000/40, s.rate(), "the smaller ones do not count any more")
	s.add(1500, 60*time.Millisecond)
	require.EqualValues(t, 2500*1_000_000/100, s.rate())
	s.add(700, time.Hour)
	require.EqualValues(t, 2500*1_000_000/100, s.rate(), "less than half of the largest")
	s.add(16_000, 0)
	require.EqualValues(t, 16_000*1_000_000, s.rate(), "too quick to measure")
}
