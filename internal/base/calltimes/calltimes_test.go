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

// 14.15: the percentiles are close to the true ones, whatever the calls are added up in.
func TestCallTimes(t *testing.T) {
	t.Parallel()
	var timers [3]calltimes.Timer
	for i := range 1000 { // 1 ms to 1,000 ms
		timers[i%3].Add(time.Duration(i+1) * time.Millisecond)
	}
	var parts [3]calltimes.Text
	for i := range timers {
		parts[i] = calltimes.Text(timers[i].String())
	}
	all := parts[0].Plus(parts[1]).Plus("").Plus(parts[2])
	require.Equal(t, all, parts[2].Plus(parts[1].Plus(parts[0])), "in any order")
	require.Equal(t, time.Second, all.Longest())
	require.Equal(t, time.Second, all.Percentile(100))
	require.InEpsilon(t, 500*time.Millisecond, all.Percentile(50), 0.1)
	require.InEpsilon(t, 950*time.Millisecond, all.Percentile(95), 0.1)
	require.Zero(t, calltimes.Text("").Percentile(50))
	require.Zero(t, calltimes.Text("what 41:3 5").Percentile(50), "what is not in its form is nothing")
}
