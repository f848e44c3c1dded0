package starter

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/web/page"
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
	require.Empty(t, silence(page.Workers{}, w(time.Minute), now), "a poll takes a minute")
	require.Contains(t, silence(page.Workers{}, w(2*time.Minute), now), "dead")
	require.Empty(t, silence(page.Workers{Running: batch("a-1", 10*time.Second)}, w(4*time.Minute), now), "busy: its heartbeats come")
	require.Contains(t, silence(page.Workers{Running: batch("b-2", 10*time.Second)}, w(4*time.Minute), now), "dead", "another's")
	require.Contains(t, silence(page.Workers{Running: batch("a-1", 3*time.Minute)}, w(4*time.Minute), now), "dead", "its heartbeats have ended")
	require.Empty(t, silence(page.Workers{Running: []jobs.RunningBatch{{Worker: "a-1", Since: ago(time.Hour)}}}, w(4*time.Minute), now), "its first one may come")
}
