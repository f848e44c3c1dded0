package workflows

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/pages"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
)

// Temporal's limits for one run of a workflow, and for a payload.
const (
	limitEvents   = 51_200
	limitBytes    = 50 << 20
	limitPayload  = 2 << 20
	suggestEvents = 4096 // from where it suggests continue-as-new
	suggestBytes  = 4 << 20
)

// limitsSize is how many batches TestLimits runs, and which of the legs, the first of every so many:
// `make limits` runs a million, in one process after the other, because the SDK's test environments
// stay in memory.
func limitsSize(t *testing.T) (batches int64, part, parts int) {
	t.Helper()
	batches, part, parts = 20_000, 0, 1
	if text := os.Getenv("STINT_LIMITS_BATCHES"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		batches = n
	}
	if text := os.Getenv("STINT_LIMITS_PART"); text != "" {
		_, err := fmt.Sscanf(text, "%d/%d", &part, &parts)
		require.NoError(t, err)
	}
	return batches, part, parts
}

// quickLeg says that it has done its page, after a second.
func (w *world) quickLeg(ctx workflow.Context, in wire.LegInput) wire.LegResult {
	_ = workflow.Sleep(ctx, time.Second) // it is not cancelled
	for places := 0; workflow.GetSignalChannel(ctx, wire.SignalGrant).ReceiveAsync(&places); {
		in.Window += places
	}
	batches, err := wire.DecodePage(in.Page)
	if err != nil {
		return wire.LegResult{LegOutcomes: wire.LegOutcomes{Error: &job.Error{Message: err.Error()}}}
	}
	first, last := batches[0], batches[len(batches)-1]
	key := fmt.Sprintf("%s/manifests/%016x.jsonl", in.Ref.Run, in.Number) // as long as it is
	all := wire.Entry{Batch: batch(first.First, last.End()-first.First)}
	w.mu.Lock()
	w.manifests[key] = wire.CommitInput{Previous: in.Previous, Entries: []wire.Entry{all}}
	w.mu.Unlock()
	return wire.LegResult{
		Manifests: []string{key}, LegOutcomes: wire.LegOutcomes{
			Speed:    wire.Speed{Items: all.Count, Busy: time.Hour, Largest: w.perBatch},
			Outcomes: job.Outcomes{Totals: job.Totals{OK: all.Count, Batches: int64(len(batches)), Calls: all.Count, CallItems: all.Count, InputBytes: all.Length, Busy: time.Hour}},
		},
	}
}

// trillion makes a world with batches of a million items: with a million batches, 10^12 items.
func trillion(t *testing.T, batches int64) *world {
	w := setup(t, 0)
	w.perBatch, w.items = limits.MaxBatchItems/10, batches*limits.MaxBatchItems/10
	w.spec.BatchItems = w.perBatch
	return w
}

// A job of many batches, and then each of its legs: no run of any workflow comes near a limit of
// Temporal, and what goes from run to run does not grow.
func TestLimits(t *testing.T) {
	t.Parallel()
	batches, part, parts := limitsSize(t)
	w := trillion(t, batches)
	theJob := w.account()
	theJob.leg = w.quickLeg
	report := w.mustRun()
	require.Equal(t, w.items, report.OK)
	require.Equal(t, batches, report.Batches)
	legs := int(batches-wire.FirstPage+wire.PageBatches-1) / wire.PageBatches
	require.Len(t, w.legs, legs)
	theJob.requireWithin(t, "the job")
	require.Less(t, theJob.largest["Job input"], 10<<10, "what a job carries from run to run")
	require.LessOrEqual(t, w.runs, 2+legs/50)
	for command, n := range w.commands {
		if strings.HasPrefix(command, "signals to "+w.spec.Name+"/") {
			require.LessOrEqual(t, n, dispatch.MaxHandBacks, "%s", command)
		}
	}
	t.Logf("%s items in %s batches: %d legs, %d runs of the job", text.Thousands(w.items), text.Thousands(batches), legs, w.runs)

	busiest := &ledger{runs: map[string]*Commands{}, largest: map[string]int{}}
	for i, in := range w.legs {
		if i%parts == part {
			busiest.merge(runAlone(t, in))
		}
	}
	busiest.requireWithin(t, "a leg")
}

// An input that is still being written, a batch a second: no limit is near, however long that goes on.
func TestLimits_WaitingPages(t *testing.T) {
	t.Parallel()
	const pages = 600
	w := setup(t, 0)
	w.items = pages * w.perBatch
	w.spec.Files.Input, w.spec.Output, w.spec.BatchItems = []string{job.StandardInput}, "", w.perBatch
	w.waits, w.pageLimit, w.planTook = true, 1, time.Second
	l := w.account()
	require.Equal(t, w.items, w.mustRun().OK)
	l.requireWithin(t, "the job")
	require.Less(t, len(w.legs), pages/20, "only at the ends of runs")
	require.Less(t, w.runs, pages/100)
	require.Greater(t, w.runs, 1)
}

// runAlone runs a leg of a job by itself, in a history in which every end has its own task.
func runAlone(t *testing.T, in wire.LegInput) *ledger {
	t.Helper()
	w := trillion(t, 1)
	l := w.account()
	in.Window = w.spec.Window // beside other legs, it gets them with signals
	page, err := wire.DecodePage(in.Page)
	require.NoError(t, err)
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.Nil(t, result.Error)
	require.Equal(t, page[len(page)-1].End()-page[0].First, result.Totals.OK)
	require.EqualValues(t, len(page), len(w.all))
	w.requireSettled()
	return l
}

// merge takes in what another ledger has found.
func (l *ledger) merge(o *ledger) {
	for _, id := range slices.Sorted(maps.Keys(o.runs)) {
		l.runs[fmt.Sprint(len(l.runs))] = o.runs[id]
	}
	for what, size := range o.largest {
		l.largest[what] = max(l.largest[what], size)
	}
	l.most = max(l.most, o.most)
}

// requireWithin fails unless every run is far within Temporal's limits.
func (l *ledger) requireWithin(t *testing.T, of string) {
	t.Helper()
	const margin = 5
	var most, events, size int
	for id, c := range l.runs {
		bytesOf := c.Bytes + EventBytes*c.Most()
		require.Less(t, c.Most(), limitEvents/margin, id)
		require.Less(t, bytesOf, limitBytes/margin, id)
		most, events, size = max(most, c.Most()), max(events, c.Events()), max(size, bytesOf)
	}
	t.Logf("%s: runs of at most %d events (%d without workflow tasks) and %d bytes; payloads %v", of, most, events, size, l.largest)
	for what, size := range l.largest {
		require.Less(t, size, limitPayload/margin, what)
	}
	require.LessOrEqual(t, l.most, 2, "a Plan and a Commit")
}

// Every end of a batch with its own workflow task: a leg ends its run in time, and continues in
// another.
func TestLimits_OfTheBusiestLeg(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 300 // more at once are too many for the test environment
	l := w.account()
	w.process = func(x *execution) {
		if x.in.Batch.Count == w.perBatch {
			x.rests(1) // and once more
		}
	}
	result, err := w.runLeg(w.legInput(wire.PageBatches))
	require.NoError(t, err)
	require.EqualValues(t, wire.PageBatches*w.perBatch, result.Totals.OK)
	require.Greater(t, w.runs, 1)
	for id, c := range l.runs {
		t.Logf("%s: at most %d events", id, c.Most())
		require.LessOrEqual(t, c.Most(), dispatch.MaxEvents+6*w.spec.Window+100, id)
	}
	require.Less(t, dispatch.MaxEvents+6*wire.PageBatches, limitEvents/5, "no leg has more in flight than its page")
	require.GreaterOrEqual(t, coordinate.OpenLegs*wire.PageBatches, limits.MaxWindow*14/10, "legs for the widest window, while some drain")
	for what, size := range l.largest {
		require.Less(t, size, limitPayload/5, what)
	}
}

// A leg of a pipeline of six steps, in which every end has its own task and a batch's parcel has up to four parts: its
// page is smaller by as much as each batch has more executions, so that its histories and what they carry are within
// the same bounds.
func TestLimits_OfAPipeline(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Pool, w.spec.Window = "thumbs", 300
	w.spec.Stages = []job.Stage{
		{Name: "clean", Pool: "thumbs"},
		{Name: "score", Ensemble: []job.Stage{{Name: "a", Pool: "thumbs"}, {Name: "b", Pool: "thumbs"}, {Name: "c", Pool: "thumbs"}}},
		{Name: "join", Pool: "thumbs"},
		{Name: "format", Pool: "thumbs"},
	}
	const steps = 6
	batches := pages.PageSize(coordinate.Snapshot{Portions: 1, Spec: w.spec})
	require.Equal(t, wire.PageBatches/steps, batches)
	l := w.account()
	w.process = func(x *execution) {
		if x.in.Batch.Count == w.perBatch && x.in.Batch.From == nil {
			x.rests(1) // and once more
		}
		if !x.in.Stage.Last {
			e := x.result.Entry
			x.result.Totals.OK = 0
			x.result.Written = &wire.Part{
				Number: x.in.Stage.Writes, Run: strings.Repeat("r", 36), Token: strings.Repeat("t", 26), First: e.First, Count: e.Count,
				Format: "jsonl", Bytes: 1 << 40, Sum: 1<<32 - 1, ErrBytes: 1 << 40, ErrSum: 1<<32 - 1,
			}
		}
	}
	result, err := w.runLeg(w.legInput(batches))
	require.NoError(t, err)
	require.Nil(t, result.Error)
	require.EqualValues(t, int64(batches)*w.perBatch, result.Totals.OK)
	require.Len(t, w.all, 2*steps*batches, "both pieces of a batch go through all steps")
	for id, c := range l.runs {
		require.LessOrEqual(t, c.Most(), dispatch.MaxEvents+6*w.spec.Window+100, id)
	}
	l.requireWithin(t, "a leg of a pipeline")
	require.Equal(t, 1, pages.PageSize(coordinate.Snapshot{Portions: 1, Spec: job.Spec{Stages: manyStages(2 * wire.PageBatches)}}), "a page is never empty")
}

// manyStages is a pipeline of so many stages.
func manyStages(n int) (all []job.Stage) {
	for i := range n {
		all = append(all, job.Stage{Name: fmt.Sprint("s", i), Pool: "thumbs"})
	}
	return all
}

// A page of a thousand batches whose numbers are as large as they get is a small payload.
func TestLimits_Pages(t *testing.T) {
	t.Parallel()
	var batches []wire.Batch
	for i := range int64(wire.PageBatches) {
		batches = append(batches, wire.Batch{ // nothing follows from the batch before
			Source: 1 << 30, Offset: 1<<62 + i*7, Length: limits.MaxBatchBytes, First: 1<<62 + i*5, Count: limits.MaxBatchItems, Digest: 1<<32 - 1,
		}.Sealed())
	}
	require.Less(t, len(wire.EncodePage(batches)), 40<<10)
}
