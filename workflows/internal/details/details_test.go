package details

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestJobDetails(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	running := job.Report{
		Started: began, State: job.Running, Pool: "thumbs", Planned: 12_345, Legs: 3, OpenLegs: []string{"nightly/leg-1", "nightly/leg-2"},
		Outcomes: job.Outcomes{Totals: job.Totals{OK: 11_000, Failed: 7, Dropped: 1000, Batches: 1200, Retries: 2, Expiries: 1}},
	}
	tests := []struct {
		name   string
		change func(r *job.Report)
		has    []string
		hasNot []string
	}{
		{"running", func(*job.Report) {}, []string{"running", "`thumbs`", "12,345", "so far", "**running** · 11,007 of 12,345 items found so far · 7 failed · pool `thumbs`", "Counted at 04:01:40 UTC", "11,000", "7", "1,000", "1,200", "nightly/leg-1, nightly/leg-2", "**batches** 1,200 done · 3 legs\n"}, []string{"Error", "Output", "First failed", "in flight"}},
		{"running without legs of their own", func(r *job.Report) { r.OpenLegs, r.InFlight, r.Waiting = nil, 4, 3 },
			[]string{"**batches** 1,200 done · 4 in flight · 3 waiting · 3 legs\n"}, []string{"legs:"}},
		{"old files", func(r *job.Report) { r.OldFiles = 1200 }, []string{"**old files** 1,200 files left out, because earlier runs have completed them\n"}, nil},
		{"skipped", func(r *job.Report) { r.Skipped = 1200 }, []string{"**skipped** 1,200 items whose file was there\n"}, nil},
		{"planned", func(r *job.Report) { r.PlanDone = true }, []string{"12,345"}, []string{"so far"}},
		{"stopping", func(r *job.Report) { r.State, r.Reason = job.Stopping, "lunch" }, []string{"stopping", "lunch"}, nil},
		{"failed", func(r *job.Report) {
			r.State, r.Error = job.Failed, &job.Error{Type: "DiskFull", Message: "no space left"}
		}, []string{"failed", "**Error** no space left"}, nil},
		{"loop", func(r *job.Report) {
			r.Loop = &job.LoopReport{Slots: 2, Every: 10 * time.Second, Ticks: 4321, Missed: 17, Skipped: 3, Repeated: 5, LateMedian: time.Millisecond, LateMax: 2 * time.Second}
		}, []string{"11,000 of 4,321 ticks", "**loop** 2 slots every 10s · 4,321 ticks · 17 missed · 3 skipped · 5 repeated · late 1ms at the median, 2s at most"}, []string{"so far"}},
		{"failures", func(r *job.Report) {
			r.Failures = []job.FailureGroup{{Kind: job.KindError, Type: "ValueError", Pattern: "no *", Count: 1200, Item: 7, Message: "no 7"}, {Count: 3}}
		}, []string{"**Failures** by type and message, each with its first item\n\n- 1,200 × error ValueError: no 7 (item 7)\n- 3 × others\n"}, nil},
		{"failed item", func(r *job.Report) {
			r.FirstError = &job.FirstError{Item: 4711, Kind: job.KindCrash, Error: job.Error{Message: "killed"}}
		}, []string{"**First failed item** 4,711 (crash): killed"}, nil},
		{"stragglers", func(r *job.Report) {
			r.Stragglers = []job.Straggler{{Batch: "batch 7 · items 1–2", Since: time.Date(2026, 11, 21, 4, 5, 6, 0, time.UTC)}}
		}, []string{"Still running: batch 7 · items 1–2, since 04:05:06"}, nil},
		{"many stragglers", func(r *job.Report) {
			for i := range 1000 {
				r.Stragglers = append(r.Stragglers, job.Straggler{Batch: fmt.Sprint("batch ", i), Worker: "host-1"})
			}
		}, []string{"Still running: batch 9 ", "and 990 more"}, []string{"batch 10 "}},
		{"long errors", func(r *job.Report) {
			for range 20 {
				r.Hooks = append(r.Hooks, job.HookRun{Stage: wire.HookCleanup, Hook: "tidy", Error: &job.Error{Message: strings.Repeat("ö", 1000)}})
			}
		}, []string{"cleanup hook tidy failed"}, nil},
		{"completed", func(r *job.Report) {
			r.State, r.Output = job.Completed, &job.Output{Location: "out.jsonl", Bytes: 1_234_567, Checksum: "crc32c:1", Errors: "errors.jsonl"}
		}, []string{"**Output** out.jsonl · 1,234,567 bytes · crc32c:1", "**Errors** errors.jsonl"}, nil},
		{"speed", func(r *job.Report) { r.PlanDone, r.Resumed = true, 1007 },
			[]string{"**running** · 11,007 of 12,345 items (89%) · 7 failed · about 13s left", "**speed** 100 items a second on average until 04:01:40, with about 13s left"}, nil},
		{"window", func(r *job.Report) { r.Settings, r.Window = job.Spec{}.Settings(), 400 }, []string{"3 legs · window auto (400)"}, nil},
		{"window set", func(r *job.Report) { r.Settings, r.Window = job.Spec{Window: 8}.Settings(), 8 }, []string{"3 legs · window 8\n"}, nil},
		{"stages", func(r *job.Report) {
			r.Stages = []job.StageReport{
				{Stage: "clean", Pool: "awk", Waiting: 3, InFlight: 2, Done: 50_000, Failed: 7, Busy: time.Minute},
				{Stage: "score.models", Pool: "models", Window: 4, Done: 1000, Busy: 3 * time.Minute}, {Stage: "last", Pool: "awk"},
			}
		}, []string{
			"- **clean** (pool `awk`) 50,000 items done · 7 failed · 3 batches waiting · 2 in flight · 500 a second · 25% of the time\n",
			"- **score.models** 1,000 items done · 0 failed · window 4 · 10 a second · 75% of the time\n",
			"- **last** (pool `awk`) 0 items done · 0 failed\n", "the stages of the running legs are in their own details",
		}, []string{"pool `thumbs`"}},
		{"slowed down", func(r *job.Report) { r.Throttle, r.SlowDowns = &job.Throttle{Rate: 12_500}, 3 },
			[]string{"**slowed down** to 12.5 items/s (3 requests of the handler)"}, nil},
		{"hooks", func(r *job.Report) {
			r.Hooks = []job.HookRun{
				{Stage: "init", Hook: "prepare"}, {Stage: "shutdown", Hook: "bell", Error: &job.Error{Message: "broken"}},
				{Stage: "cleanup", Hook: "tidy", Skipped: "work was still running"},
			}
		}, []string{"shutdown hook bell failed: broken", "cleanup hook tidy was not run: work was still running"}, []string{"prepare"}},
		{"later errors", func(r *job.Report) { r.LaterErrors, r.LaterErrorsOmitted = []job.Error{{Message: "second"}}, 4 },
			[]string{"5 later errors, the first: second"}, nil},
		{"workers", func(r *job.Report) {
			for i := range shownWorkers + 2 {
				r.Workers = append(r.Workers, job.WorkerShare{Worker: fmt.Sprint("host-", i), Items: 4000, Batches: 12, Busy: time.Minute, Last: began})
			}
		}, []string{"**Workers**, without what they have done in the running legs\n\n", "`host-9` 4,000 items in 12 batches, busy for 1m0s, the last one until 04:00:00", "and 2 more"}, []string{"host-10"}},
		{"without errors", func(r *job.Report) { r.Output = &job.Output{Location: "out.jsonl"} }, nil, []string{"**Errors**"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := running
			test.change(&r)
			text := Job(r, began.Add(100*time.Second))
			for _, part := range test.has {
				require.Contains(t, text, part)
			}
			for _, part := range test.hasNot {
				require.NotContains(t, text, part)
			}
			require.Less(t, len(text), 20_000, "Temporal's limit")
		})
	}
}

func TestJob_Feed(t *testing.T) {
	t.Parallel()
	r := job.Report{Job: "risk", Pool: "p", State: job.Running, Planned: 1200, Discarded: 7, Feed: &job.FeedReport{Session: 2, Capacity: 1000, CapacityBytes: 4 << 20, Segments: 3}}
	text := Job(r, time.Now())
	require.Contains(t, text, "1,200 accepted so far")
	require.Contains(t, text, "**feed** session 2 · 7 items discarded · capacity 1,000 items and 4,194,304 bytes · 3 segments")
	r.Feed, r.PlanDone = nil, true
	require.NotContains(t, Job(r, time.Now()), "feed")
}
