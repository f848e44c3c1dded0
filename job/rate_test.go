package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReport_Speed(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	later := start.Add(10 * time.Second)
	report := func(ok, resumed, bytes int64) Report {
		return Report{Started: start, Resumed: resumed, Outcomes: Outcomes{Totals: Totals{OK: ok, InputBytes: bytes}}}
	}
	require.Equal(t, Speed{Items: 10, Bytes: 500}, report(100, 0, 5000).Speed(later))
	require.Equal(t, Speed{Items: 4}, report(100, 60, 5000).Speed(later), "earlier runs do not count")
	require.Equal(t, Speed{}, report(0, 0, 0).Speed(later))
	require.Equal(t, Speed{}, report(100, 0, 5000).Speed(start), "no time has passed")
	ended := report(100, 0, 5000)
	ended.Ended = &later
	require.Equal(t, Speed{Items: 10, Bytes: 500}, ended.Speed(later.Add(time.Hour)))

	now := report(100, 60, 5000)
	require.Equal(t, Speed{Items: 3, Bytes: 300}, now.SpeedSince(report(70, 60, 2000), start, later))
	require.Equal(t, Speed{}, now.SpeedSince(report(70, 60, 2000), start, start))
}

func TestReport_TimeLeft(t *testing.T) {
	t.Parallel()
	r := Report{Planned: 200, Outcomes: Outcomes{Totals: Totals{OK: 90, Failed: 10, InputBytes: 2500}}}
	_, ok := r.TimeLeft(Speed{Items: 10, Bytes: 500})
	require.False(t, ok, "neither size nor items are known")

	r.TotalBytes = 10_000
	left, ok := r.TimeLeft(Speed{Items: 10, Bytes: 500})
	require.True(t, ok)
	require.Equal(t, 15*time.Second, left)
	_, ok = r.TimeLeft(Speed{Items: 10})
	require.False(t, ok)

	r.PlanDone = true
	left, ok = r.TimeLeft(Speed{Items: 10})
	require.True(t, ok)
	require.Equal(t, 10*time.Second, left)
	_, ok = r.TimeLeft(Speed{})
	require.False(t, ok)

	r.InputBytes = 11_000
	left, ok = r.TimeLeft(Speed{Bytes: 500})
	require.True(t, ok)
	require.Zero(t, left, "the input has grown")
}
