package dispatch

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

// none supplies nothing.
type none struct{}

func (none) Next() (wire.Task, bool) { return wire.Task{}, false }
func (none) Waiting() int            { return 0 }
func (none) Ended() bool             { return true }

// M3: a leg shows what it has done, what runs longest, and why it has repeated something.
func TestLegDetails(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC)
	l := &Dispatcher{Config: Config{Supply: none{}}, returned: make([]task, 5), delayed: []*task{{}, {}}}
	for i := range 4 {
		l.flying = append(l.flying, &task{Task: wire.Task{Batch: wire.Batch{First: int64(i) * 10, Count: 10}.Sealed(), Number: int64(i + 1)}, started: at.Add(time.Duration(i*i-2*i) * time.Second)})
	}
	l.sofar.Totals = job.Totals{OK: 12_345, Failed: 6, Batches: 1300}
	require.Equal(t, "12,345 items ok · 6 failed · 1,300 batches done · 4 in flight · 7 waiting\n\n"+
		"Oldest in flight: batch 2 · items 10–19, dispatched at 01:02:02", l.Details())
	l.lastError = "batch 3 (item 1): network"
	require.Contains(t, l.Details(), "Last retry: batch 3 (item 1): network")
}

// Items between two stages show that something works, unless a stage has failed all that it had, in whichever leg.
func TestCounts_OfAPipeline(t *testing.T) {
	t.Parallel()
	staged := func(between, done, failed int64) wire.Counts {
		var o wire.LegOutcomes
		o.Totals = job.Totals{Failed: failed, Between: between}
		o.Stages = []job.StageReport{{Stage: "clean", Done: between + done}, {Stage: "score", Done: done, Failed: failed}}
		return CountsOf(o)
	}
	sum := staged(300, 0, 0)
	require.EqualValues(t, 300, sum.Passed())
	require.EqualValues(t, 50, staged(50, 100, 99).Passed())
	sum.Add(staged(200, 1000, 1000))
	require.Zero(t, sum.Passed(), "the other leg's items are all still before that stage")
	require.EqualValues(t, 1000, sum.Failed)
	sum.Add(wire.Counts{OK: 1})
	require.EqualValues(t, 1, sum.Passed())
}

// A report has up to a thousand stragglers, and no text of them is long.
func TestStraggles_TextsAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("<", 1000)
	d := &Dispatcher{}
	d.straggles(job.Straggler{Batch: long, Worker: long, Why: long})
	want := strings.Repeat("<", MaxStraggler/6-1) + "…"
	require.Equal(t, []job.Straggler{{Batch: want, Worker: want, Why: want}}, d.sofar.Stragglers)
}

// What a suspected task carries of its last loss is short: a leg that continues as new has hundreds.
func TestNarrowed_CauseIsShort(t *testing.T) {
	t.Parallel()
	d := &Dispatcher{}
	d.narrowed(task{}, temporal.NewApplicationError(strings.Repeat("\x00", 1000), "Died"))
	require.LessOrEqual(t, text.JSONSize(d.returned[0].Cause), MaxCause+2)
	require.NotEmpty(t, d.returned[0].Cause)
}
