package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/job"
)

func done(ok int64) job.Report {
	return job.Report{Outcomes: job.Outcomes{Totals: job.Totals{OK: ok}}}
}

// A speed is that of the last seconds; one that cannot be known is not zero.
func TestPace(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var p Pace
	requireSpeed := func(want float64, known bool) {
		t.Helper()
		speed, ok := p.Speed()
		require.Equal(t, known, ok)
		require.InDelta(t, want, speed.Items, 0.001)
	}
	requireSpeed(0, false)
	p.Note(done(100), began)
	requireSpeed(0, false)
	p.Note(done(100), began.Add(time.Second))
	requireSpeed(0, false)
	p.Note(done(200), began.Add(2*time.Second))
	requireSpeed(50, true)
	p.Note(done(200), began.Add(4*time.Second))
	requireSpeed(50, true)
	for s := range 20 {
		p.Note(done(200), began.Add(time.Duration(5+s)*time.Second))
	}
	requireSpeed(0, true)
	require.LessOrEqual(t, len(p.looks), 17)
	p.Note(done(1000), began.Add(time.Hour))
	requireSpeed(0, false)
	p.Note(done(1300), began.Add(time.Hour+30*time.Second))
	requireSpeed(10, true)
}
