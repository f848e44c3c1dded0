package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpeed(t *testing.T) {
	t.Parallel()
	var s Speed
	require.Zero(t, s.Rate())
	s.Add(500, 50*time.Millisecond)
	s.Add(500, 30*time.Millisecond)
	require.EqualValues(t, 1000*1_000_000/80, s.Rate(), "both count")
	s.Add(1000, 40*time.Millisecond)
	require.EqualValues(t, 1000*1_000_000/40, s.Rate(), "the smaller ones do not count any more")
	s.Add(1500, 60*time.Millisecond)
	require.EqualValues(t, 2500*1_000_000/100, s.Rate())
	s.Add(700, time.Hour)
	require.EqualValues(t, 2500*1_000_000/100, s.Rate(), "less than half of the largest")
	s.Add(16_000, 0)
	require.EqualValues(t, 16_000*1_000_000, s.Rate(), "too quick to measure")
}
