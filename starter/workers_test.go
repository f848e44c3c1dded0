package starter

import (
	"testing"
	"time"

	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
)

func TestR24_AWorkerThatIsNotHeardOfIsMarked(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	w := func(seen time.Duration) jobs.PoolWorker {
		return jobs.PoolWorker{Pool: "p", Worker: "a-1", Seen: ago(seen)}
	}
	batch := func(worker string, beat time.Duration) []jobs.RunningBatch {
		return []jobs.RunningBatch{{Worker: worker, Since: ago(time.Hour), Beat: ago(beat)}}
	}
	require.Empty(t, silence(w(time.Minute), nil, now), "a poll takes a minute")
	require.Contains(t, silence(w(2*time.Minute), nil, now), "dead")
	require.Empty(t, silence(w(4*time.Minute), batch("a-1", 10*time.Second), now), "busy: its heartbeats come")
	require.Contains(t, silence(w(4*time.Minute), batch("b-2", 10*time.Second), now), "dead", "another's")
	require.Contains(t, silence(w(4*time.Minute), batch("a-1", 3*time.Minute), now), "dead", "its heartbeats have ended")
	require.Empty(t, silence(w(4*time.Minute), []jobs.RunningBatch{{Worker: "a-1", Since: ago(time.Hour)}}, now), "its first one may come")
}
