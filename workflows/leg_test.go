package workflows

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

// uneven gives every batch its own time, from a tenth of the usual one to ten times that.
func uneven(x *execution) {
	h := fnv.New64a()
	fmt.Fprint(h, x.in.Batch.First)
	random := rand.New(rand.NewPCG(h.Sum64(), 1))
	x.took = x.w.took/10 + time.Duration(random.Int64N(int64(x.w.took)))
	if random.IntN(10) == 0 {
		x.took = 10 * x.w.took
	}
}

// A leg continues in a new run when its history is long, with all that it knows.
func TestLeg_ContinuesAsNew(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.spec.Attempts = 7, 2
	events, dispatched := 0, 0
	w.historyLength = func() int { // three events a batch, as on a server, a hundred times over
		if w.runs != events {
			events, dispatched = w.runs, len(w.all)
		}
		return 300 * (len(w.all) - dispatched)
	}
	w.process = func(x *execution) {
		tries := len(w.tries(x.in.Batch.First))
		switch {
		case x.in.Batch.First%70 == 0 && tries == 1:
			x.fails(heartbeatTimeout())
		case x.in.Batch.First%50 == 0 && tries <= 2 && x.in.Batch.Count == 10:
			x.rests(5)
		}
	}
	in := w.legInput(100)
	in.Base, in.Previous = 5000, []string{"before"}
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.Nil(t, result.Error)
	require.Greater(t, w.runs, 5)
	require.EqualValues(t, 1000, result.Totals.OK)
	require.Zero(t, result.Left)
	require.LessOrEqual(t, w.most, 7)
	require.Len(t, w.commits, w.runs, "each run commits")
	w.manifests["before"] = wire.CommitInput{}
	require.EqualValues(t, 1000, tiled(w.accepted(result.Manifests)), "the last run's manifest leads to all")
	require.Equal(t, []string{"before"}, w.commits[0].Previous)
	for i := 1; i < len(w.commits); i++ {
		require.Equal(t, []string{fmt.Sprintf("m-%d", i)}, w.commits[i].Previous)
	}
	require.EqualValues(t, 15, result.Totals.Retries)
	w.requireSummaries("batch 5,001 · items 0–9", "batch 5,001 · items 0–9 · attempt 2", "batch 5,100 · items 990–999", "batch 5,006 · items 55–59 · rest")
}

// A batch that a leg of lines of one length hands over is still that batch: with another offset its items would be
// others, and nothing but the books at the end would notice.
func TestD1_LegHandsOverWholeBatches(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.historyLength = func() int { return dispatch.MaxEvents * min(1, len(w.all)-3*(w.runs-1)) } // a few batches a run
	tries := map[int64]int{}
	w.process = func(x *execution) {
		if tries[x.in.Batch.First]++; tries[x.in.Batch.First] == 1 {
			x.fails(transient("network"))
		}
	}
	result, err := w.runLeg(w.legInput(20))
	require.NoError(t, err)
	require.Nil(t, result.Error)
	require.Greater(t, w.runs, 3)
	require.EqualValues(t, 200, tiled(w.accepted(result.Manifests)))
}

// A batch that was damaged on its way ends the leg before anything of it is read.
func TestD1_DamagedBatchIsNotExecuted(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	in := w.legInput(2)
	whole := batch(500, 10)
	moved := whole
	moved.Offset = 0
	in.LegState.Tasks = []wire.Task{{Batch: moved, Number: 1}}
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.NotNil(t, result.Error)
	require.Equal(t, job.ErrorDamaged, result.Error.Type)
	require.Contains(t, result.Error.Message, "batch 1 was not executed: items 500–509")
	for _, x := range w.all {
		require.NotEqual(t, whole.First, x.in.Batch.First)
	}
	require.EqualValues(t, 30-result.Totals.OK, result.Left)
}

// What an execution returns counts only if it is about the items that it was given.
func TestD1_AnswerAboutOtherItemsIsNotRecorded(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(r *wire.ProcessResult){
		"others":         func(r *wire.ProcessResult) { r.Entry.Batch = batch(20, 10) },
		"fewer":          func(r *wire.ProcessResult) { r.Entry.Batch = batch(0, 9) },
		"more":           func(r *wire.ProcessResult) { r.Entry.Batch = batch(0, 11) },
		"other bytes":    func(r *wire.ProcessResult) { r.Entry.Offset++ },
		"a wrong rest":   func(r *wire.ProcessResult) { *r = halfDone(batch(0, 5), batch(6, 4)) },
		"a damaged rest": func(r *wire.ProcessResult) { *r = halfDone(batch(0, 5), batch(5, 5)); r.Rest.Length-- },
		"another's rest": func(r *wire.ProcessResult) { *r = halfDone(batch(0, 5), batch(5, 6)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 0)
			w.process = func(x *execution) { spoil(&x.result) }
			result, err := w.runLeg(w.legInput(1))
			require.NoError(t, err)
			require.NotNil(t, result.Error)
			require.Equal(t, job.ErrorDamaged, result.Error.Type)
			require.Zero(t, result.Totals.OK)
			require.EqualValues(t, 10, result.Left)
			require.Empty(t, w.commits)
		})
	}
}

func halfDone(done, rest wire.Batch) wire.ProcessResult {
	return wire.ProcessResult{Entry: wire.Entry{Batch: done, Part: "p", OK: done.Count}, Rest: &rest, Totals: job.Totals{OK: done.Count, Batches: 1}}
}

// Before it continues as new a leg reports to its job what it has committed: if its workflow is ended then, that
// remains.
func TestLeg_ReportsWhatItHasCommitted(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.historyLength = func() int { return dispatch.MaxEvents * min(1, len(w.all)/10*(2-min(2, w.runs))) }
	var kept []wire.KeptResult
	w.sent = func(signal string, arg any) {
		if signal == wire.SignalKept {
			kept = append(kept, arg.(wire.KeptResult))
		}
	}
	in := w.legInput(40)
	in.Number = 3
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.EqualValues(t, 400, result.Totals.OK)
	require.Equal(t, 2, w.runs)
	require.Len(t, kept, 1)
	require.Equal(t, 3, kept[0].Leg)
	require.Equal(t, []string{"m-1"}, kept[0].Result.Manifests)
	require.EqualValues(t, 400, kept[0].Result.Totals.OK+kept[0].Result.Left)
	require.Positive(t, kept[0].Result.Totals.OK)
	require.Less(t, kept[0].Result.Totals.OK, int64(400))
}

// The number of attempts goes with a batch into the new run.
func TestLeg_ContinuesAsNewWithAttempts(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Attempts = 3
	w.historyLength = func() int { return dispatch.MaxEvents * min(1, len(w.all)-(w.runs-1)) }
	w.process = func(x *execution) { x.fails(transient("network")) }
	result, err := w.runLeg(w.legInput(1))
	require.NoError(t, err)
	require.Equal(t, 3, w.runs)
	require.Len(t, w.all, 3)
	require.Equal(t, job.ErrorExhausted, result.Error.Type)
	require.Empty(t, w.commits)
}

// A stop while the leg drains in order to continue as new does not end it.
func TestLeg_StopWhenFull(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.took = 5, time.Second
	w.historyLength = func() int { return dispatch.MaxEvents * min(1, len(w.all)/10) }
	w.at(1500*time.Millisecond, func() {
		w.env.SignalWorkflow(wire.SignalHalt, wire.StopNotice{Deadline: w.env.Now().Add(time.Minute)})
	})
	result, err := w.runLeg(w.legInput(40))
	require.NoError(t, err)
	require.Equal(t, 1, w.runs)
	require.EqualValues(t, 50, result.Totals.OK)
	require.EqualValues(t, 350, result.Left)
}

// A stop that comes while the leg commits, before it continues as new, is still in force (S17).
func TestLeg_StopWhileCommittingWhenFull(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.took, w.commitTook = 5, time.Second, 10*time.Second
	w.historyLength = func() int { return dispatch.MaxEvents * min(1, len(w.all)/10) }
	w.commit = func(wire.CommitInput) error {
		w.later(5*time.Second, func() {
			w.env.SignalWorkflow(wire.SignalHalt, wire.StopNotice{Deadline: w.env.Now().Add(time.Minute)})
		})
		return nil
	}
	result, err := w.runLeg(w.legInput(40))
	require.NoError(t, err)
	require.Equal(t, 1, w.runs)
	require.EqualValues(t, 100, result.Totals.OK)
	require.EqualValues(t, 300, result.Left)
}

// G8: what a page costs. Anything more would show here.
func TestLeg_Commands(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.process = uneven
	result, err := w.runLeg(w.legInput(wire.PageBatches))
	require.NoError(t, err)
	require.EqualValues(t, 10*wire.PageBatches, result.Totals.OK)
	require.Equal(t, map[string]int{"Process": wire.PageBatches, "Commit": 1}, w.commands)
}

func TestLeg_BadPage(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	_, err := w.runLeg(wire.LegInput{Spec: w.spec, LegState: wire.LegState{Number: 3, Window: 1}, Page: []byte{0xff}})
	require.ErrorContains(t, err, "reading the page of leg 3")
}

func TestLeg_EmptyPage(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	result, err := w.runLeg(wire.LegInput{Spec: w.spec, LegState: wire.LegState{Number: 3, Window: 5}, Previous: []string{"before"}})
	require.NoError(t, err)
	require.Equal(t, wire.LegResult{Manifests: []string{"before"}}, result)
	require.Empty(t, w.commits, "nothing is committed if nothing was done")
}

func TestLeg_Progress(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.took = 4, time.Second
	w.process = func(x *execution) {
		if x.in.Batch.First == 0 && len(w.tries(0)) == 1 {
			x.fails(transient("the network is down"))
		}
	}
	w.at(1500*time.Millisecond, func() {
		value, err := w.env.QueryWorkflow(wire.QueryProgress)
		require.NoError(t, err)
		var p job.Progress
		require.NoError(t, value.Get(&p))
		require.EqualValues(t, 30, p.OK)
		require.Equal(t, 4, p.InFlight)
		require.Equal(t, 13, p.Waiting, "the one that waits for its repetition included")
		require.Equal(t, "batch 1 (items 0–9): the network is down", p.LastFailure)
		require.EqualValues(t, 1, p.Retries)
	})
	_, err := w.runLeg(w.legInput(20))
	require.NoError(t, err)
}

// The leg's own context ends with its workflow: cancelled by somebody, it must not take that for
// failures of its batches.
func TestLeg_Cancelled(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.took = 2, time.Second
	w.at(1500*time.Millisecond, w.env.CancelWorkflow)
	result, err := w.runLeg(w.legInput(20))
	if err == nil { // whatever it is taken for, no item is lost, and none is blamed
		require.EqualValues(t, 200, result.Totals.OK+result.Left)
		require.EqualValues(t, result.Totals.OK, total(w.accepted(result.Manifests)))
		if result.Error != nil {
			require.NotEqual(t, job.ErrorExhausted, result.Error.Type)
		}
		return
	}
	require.True(t, temporal.IsCanceledError(err), "%v", err)
}

func total(ranges []wire.Batch) int64 {
	var n int64
	for _, b := range ranges {
		n += b.Count
	}
	return n
}

// The tries that items have behind them go on with what an execution has left of their batch.
func TestD5_TriesGoOnWithTheRest(t *testing.T) {
	t.Parallel()
	w := setup(t, 10)
	behind := []byte{1, 2, 3}
	var got [][]byte
	w.process = func(x *execution) {
		if got = append(got, x.in.Trials); len(got) == 1 {
			x.rests(1)
			x.result.Trials = behind
		}
	}
	result, err := w.runLeg(w.legInput(1))
	require.NoError(t, err)
	require.EqualValues(t, 10, result.Totals.OK)
	require.Equal(t, [][]byte{nil, behind}, got)
}
