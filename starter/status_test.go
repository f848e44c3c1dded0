package starter

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestPrintFeed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*job.Report)
		want   []string
	}{
		{"busy", func(*job.Report) {}, []string{
			"discarded: 5 items", "feed: session 2, busy, 3 segments", "backlog: 10 of 1,000 items and 100 of 4,000 bytes are unfinished, 4 of them wait for a batch, the oldest one was accepted 1m",
			"in queue: 1.2ms on average, 30ms at most", "batch size: 20 items on average", "unclaimed: 2 results",
		}},
		{"full", func(r *job.Report) { r.Feed.BacklogBytes = 4000 }, []string{"session 2, full"}},
		{"idle", func(r *job.Report) { r.Feed.Backlog = 0 }, []string{"session 2, idle"}},
		{"resumed", func(r *job.Report) { r.Feed.Earlier, r.Resumed = 7, 20 }, []string{"session 2, busy", "7 of them were accepted before the feed was resumed", "batch size: 20 items"}},
		{"stalled", func(r *job.Report) { r.Feed.StalledSince = time.Now().Add(-time.Minute) }, []string{"stalled: no item has finished for 1m"}},
		{"lost", func(r *job.Report) { r.Feed.Lost, r.Feed.Gone = 12, []string{"risk/leg-3"} }, []string{"lost: 12 items, and what was put last to legs whose history was gone: risk/leg-3"}},
		{"ended", func(r *job.Report) { r.State = job.Completed }, []string{"feed: 2 sessions, 3 segments"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := job.Report{State: job.Running, Planned: 1215, Discarded: 5, Outcomes: job.Outcomes{Totals: job.Totals{OK: 1190, Failed: 10, Batches: 60}}, Feed: &job.FeedReport{
				Session: 2, Accepted: 1215, Backlog: 10, BacklogBytes: 100, Capacity: 1000, CapacityBytes: 4000, Waiting: 4, Unclaimed: 2,
				OldestSince: time.Now().Add(-time.Minute), QueueMean: 1234 * time.Microsecond, QueueMax: 30 * time.Millisecond, Segments: 3,
			}}
			c.change(&r)
			var out bytes.Buffer
			printFeed(func(name, format string, args ...any) { fmt.Fprintf(&out, name+": "+format+"\n", args...) }, r)
			for _, want := range c.want {
				require.Contains(t, out.String(), want)
			}
		})
	}
	printFeed(func(string, string, ...any) { t.Error("a job of files has none of that") }, job.Report{})
}

func TestProgress_Feed(t *testing.T) {
	t.Parallel()
	p := newProgress(&bytes.Buffer{}, false, false)
	r := job.Report{State: job.Running, Planned: 1210, Outcomes: job.Outcomes{Totals: job.Totals{OK: 1200}}, Feed: &job.FeedReport{Backlog: 10, Capacity: 1000}}
	require.Equal(t, "1,200 of 1,210 items, 10 of 1,000 places taken, 0 failed", p.line(r))
	r.Feed.StalledSince = time.Now().Add(-time.Minute)
	require.Equal(t, "1,200 of 1,210 items, 10 of 1,000 places taken, stalled: none has finished for 1m0s, 0 failed", p.line(r))
}
