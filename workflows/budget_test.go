package workflows

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

// till has batches use tokens for their items, and checks that no more is shared out than the budget has.
type till struct {
	w      *world
	random *rand.Rand
	most   int64 // of an item
	lost   int64 // by executions that have failed
	used   map[*execution]int64
}

func (w *world) till(seed uint64, most int64) *till {
	s := &till{w: w, random: rand.New(rand.NewPCG(seed, 9)), most: most, used: map[*execution]int64{}}
	w.process = s.process
	return s
}

// process decides how a batch ends: at the end of its share, which its last item may exceed, or now and then lost.
func (s *till) process(x *execution) {
	w := s.w
	require.NotNil(w.t, x.in.Share)
	share := x.in.Share.Tokens
	require.Positive(w.t, share)
	committed := s.lost
	for _, other := range w.all {
		if other.ended {
			committed += s.used[other]
		} else {
			committed += other.in.Share.Tokens
		}
	}
	require.LessOrEqual(w.t, committed, w.spec.MaxTokens+int64(w.flying+1)*s.most, "shared out, of %d", w.spec.MaxTokens)
	var n, used int64
	for n < x.takes() && used < share {
		used += 1 + s.random.Int64N(s.most)
		n++
	}
	x.took = time.Duration(1+s.random.IntN(5000)) * time.Millisecond
	if s.random.IntN(20) == 0 {
		s.lost += used
		x.fails(temporal.NewHeartbeatTimeoutError(wire.Hint{First: x.in.Batch.First, Count: 1, Usage: job.Usage{TokensIn: used}}))
		return
	}
	s.used[x] = used
	x.result = x.done(n)
	x.result.Totals.Usage = job.Usage{TokensIn: used}
}

// total is what executions that have reported have used.
func (s *till) total() (sum int64) {
	for x, used := range s.used {
		if x.ended {
			sum += used
		}
	}
	return sum
}

// H3: whatever executions use, lose and leave, no more is shared out than there is, over all legs; the job stops in
// order when it is spent, and not before.
func TestBudget_IsShared(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		w := setup(t, 20_000)
		w.pageLimit = 40
		w.spec.Attempts = 20
		w.spec.MaxTokens = 1 + rand.New(rand.NewPCG(seed, 8)).Int64N(3_000_000)
		s := w.till(seed, 200)
		report := w.stoppedOrDone()
		require.Equal(t, s.total(), report.Usage.TokensIn, "seed %d", seed)
		require.Equal(t, s.lost, report.LostUsage.TokensIn, "seed %d", seed)
		require.LessOrEqual(t, report.Spent().Tokens(), w.spec.MaxTokens+64*200, "seed %d", seed)
		if report.State == job.Stopped {
			require.GreaterOrEqual(t, report.Spent().Tokens(), w.spec.MaxTokens, "seed %d", seed)
			require.Contains(t, report.Reason, "is spent")
		}
	}
}

// stoppedOrDone runs the job, which may stop.
func (w *world) stoppedOrDone() job.Report {
	report, err := w.run()
	require.NoError(w.t, err)
	return report
}

// A resumed job has what is left of the budget; with nothing left it does nothing.
func TestBudget_OfAllRuns(t *testing.T) {
	t.Parallel()
	w := setup(t, 2000)
	w.spec.MaxTokens = 1000
	w.spent, w.lost = job.Usage{TokensIn: 600, TokensOut: 300}, job.Usage{TokensOut: 100}
	w.process = func(x *execution) { t.Error("nothing is left") }
	report := w.stopped()
	require.Equal(t, w.spent, report.Usage)
	require.Equal(t, w.lost, report.LostUsage)
	require.Zero(t, report.OK)
}

// Batches that use nothing go on as if there were no budget.
func TestBudget_OfNoUse(t *testing.T) {
	t.Parallel()
	w := setup(t, 20_000)
	w.spec.MaxTokens, w.spec.MaxCost = 1000, 1000
	report := w.mustRun()
	require.EqualValues(t, 20_000, report.OK)
	require.Greater(t, w.most, 4)
}

// A budget can be set, and changed, while the job runs.
func TestBudget_Set(t *testing.T) {
	t.Parallel()
	w := setup(t, 20_000)
	w.took = time.Second
	used := int64(0)
	w.process = func(x *execution) {
		x.result.Totals.Usage = job.Usage{TokensOut: x.result.Entry.Count}
		used += x.result.Entry.Count
	}
	set := false
	most := int64(1)
	w.at(3*time.Second, func() {
		w.env.UpdateWorkflow(wire.UpdateSet, "one", accept(t, &set), job.Settings{MaxTokens: &most})
	})
	report := w.stopped()
	require.True(t, set)
	require.Equal(t, used, report.Usage.TokensOut)
	require.Less(t, report.OK, int64(20_000))
}

// A job that still runs at its deadline stops, also if that has been moved.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given string
		set   string
		want  time.Duration
	}{"given": {"40s", "", 40 * time.Second}, "moved": {"1h", "20s", 20 * time.Second}, "over": {"1h", "1s", 10 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 20_000)
			w.took, w.spec.Window, w.spec.Deadline = time.Minute, 2, c.given
			if c.set != "" {
				set := false
				w.at(10*time.Second, func() {
					w.env.UpdateWorkflow(wire.UpdateSet, "one", accept(t, &set), job.Settings{Deadline: &c.set})
				})
			}
			report := w.stopped()
			require.Contains(t, report.Reason, "the deadline, ")
			require.InDelta(t, c.want.Seconds(), report.StopDeadline.Sub(report.Started).Seconds()-w.spec.Grace.Seconds(), 2)
		})
	}
}

// Limits are shared, too: no batch is in flight without a part of them, and the parts add up to the limit.
func TestLimits_AreShared(t *testing.T) {
	t.Parallel()
	w := setup(t, 3000)
	w.spec.RequestRate, w.spec.TokenRate, w.spec.LimitBy = 6_000_000, 120_000_000, "tenant" // 100 and 2,000 a second
	w.process = func(x *execution) {
		share := x.in.Share
		require.NotNil(t, share)
		require.Equal(t, "tenant", share.By)
		require.Positive(t, share.Requests)
		require.Positive(t, share.TokenRate)
		var requests, tokens job.Rate
		for _, other := range w.waiting {
			requests, tokens = requests+other.in.Share.Requests, tokens+other.in.Share.TokenRate
		}
		require.LessOrEqual(t, requests, w.spec.RequestRate)
		require.LessOrEqual(t, tokens, w.spec.TokenRate)
		x.took = time.Minute * time.Duration(x.result.Entry.Count) * 1000 / time.Duration(share.Requests)
		busy := time.Duration(x.result.Entry.Count) * 100 * time.Millisecond // so that ten batches reach the limit
		x.took = max(x.took, busy)
		x.result.Totals.Busy, x.result.Paced, x.result.Turn = x.took, x.took-busy, -50*time.Millisecond
		x.result.Totals.Usage = job.Usage{TokensIn: 10 * x.result.Entry.Count}
	}
	report := w.mustRun()
	require.InDelta(t, 30, took(report), 6)
}

// A batch that has begun its last request leaves its part of the limits to the next one, and its end frees nothing more.
func TestLimits_BegunFreesTheShare(t *testing.T) {
	t.Parallel()
	w := setup(t, 300)
	w.perBatch = 100
	w.spec.RequestRate = 100_000
	var at []time.Duration
	began := w.env.Now()
	w.process = func(x *execution) {
		at = append(at, w.env.Now().Sub(began))
		x.took = time.Minute
		id := x.options.ActivityID
		w.later(time.Second, func() {
			w.env.SignalWorkflow(wire.SignalBegun, wire.Begun{Activity: id, NextTurn: wire.NextTurn{Turn: 3 * time.Second}})
		})
		if len(at) > 1 {
			require.Equal(t, 3*time.Second, x.in.Share.First.Turn.Round(100*time.Millisecond), "where the one before has left off")
		}
		require.Equal(t, w.spec.RequestRate, x.in.Share.Requests)
	}
	w.mustRun()
	require.Len(t, at, 3)
	require.InDelta(t, at[0].Seconds()+2, at[2].Seconds(), 0.5)
}

// H2: limits hold for a value over batches that come one after the other and beside each other, however many of these are
// needed: a turn that no batch takes over is not forgotten.
func TestLimits_OfValues(t *testing.T) {
	t.Parallel()
	w := setup(t, 2000)
	w.perBatch = 2
	w.spec.RequestRate, w.spec.LimitBy = 60_000, "tenant" // one a second
	const value = 7
	requested, most, inFlight := 0, 0, 0
	began := w.env.Now()
	w.process = func(x *execution) {
		share, n := x.in.Share, x.result.Entry.Count
		first := share.First.Turn
		for _, k := range share.First.Keys.All() {
			require.EqualValues(t, value, k.Key)
			first = max(first, k.Turn)
		}
		first = max(0, first)
		apart := time.Duration(float64(time.Minute) * 1000 / float64(share.Requests))
		requested, inFlight = requested+int(n), len(w.waiting)
		most = max(most, inFlight)
		last := first + time.Duration(n-1)*apart
		require.LessOrEqual(t, requested, int((w.env.Now().Sub(began)+last).Seconds())+most+1)
		busy := 10 * time.Second // eight batches are needed, and later one
		if x.in.Batch.First > 500 {
			busy = time.Millisecond
		}
		x.took = last + busy
		x.result.Totals.Busy, x.result.Paced = x.took, last
		x.result.Totals.Calls, x.result.Totals.CallItems = n, n
		x.result.NextTurn = wire.NextTurns(0, []wire.KeyTurn{{Key: value, Turn: last + apart - x.took}}, wire.MaxKeyTurns)
		x.result.Turns, x.result.Values = n, 1
	}
	w.mustRun()
	require.Greater(t, most, 4)
	require.Less(t, inFlight, 3)
}

// All batches in flight are given so many turns of values together as one is by itself.
func TestLimits_TurnsOfValuesAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, 3000)
	w.perBatch = 10
	w.spec.RequestRate, w.spec.LimitBy = 600_000, "tenant" // ten a second
	var keys []wire.KeyTurn
	for i := range uint32(wire.MaxKeyTurns) {
		keys = append(keys, wire.KeyTurn{Key: i, Turn: time.Minute + time.Duration(i)*time.Second})
	}
	most := 0
	w.process = func(x *execution) {
		given, n := len(x.in.Share.First.Keys.All()), len(w.waiting)
		if most = max(most, n); n > 1 && given > 0 {
			require.LessOrEqual(t, given, wire.MaxKeyTurns/2)
		}
		require.LessOrEqual(t, given, max(wire.LeastKeyTurns, wire.MaxKeyTurns*int(x.in.Share.Requests)/int(w.spec.RequestRate)))
		x.took = 10 * time.Second
		x.result.Totals.Busy = x.took
		x.result.Turns, x.result.Values = x.result.Entry.Count, 10
		x.result.NextTurn = wire.NextTurns(0, keys, wire.MaxKeyTurns)
	}
	w.mustRun()
	require.Greater(t, most, 4)
}

// H2: batches of a stage that makes no requests do not wait for the limits of one that does, and take no turn from it.
func TestLimits_OfOtherStages(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.perBatch = 100
	w.spec.Pool, w.spec.Stages = "", []job.Stage{{Name: "ask", Pool: "thumbs"}, {Name: "crop", Pool: "second"}, {Name: "save", Pool: "third"}}
	w.spec.RequestRate = 600_000 // ten a second
	w.spec = w.spec.WithDefaults()
	asked, saved, beside := 0, 0, 0
	w.process = func(x *execution) {
		x.passOn()
		n := x.result.Entry.Count
		switch x.in.Stage.Name {
		case "ask":
			require.Equal(t, 1, w.inStage("ask"), "one of them has the whole limit")
			require.Equal(t, w.spec.RequestRate, x.in.Share.Requests)
			if asked > 1 {
				require.InDelta(t, 3, x.in.Share.First.Turn.Seconds(), 0.1, "where the one before has left off")
			}
			asked++
			x.took = 10 * time.Second
			x.result.Totals.Busy, x.result.Paced = x.took, x.took
			x.result.Turns, x.result.NextTurn = n, wire.NextTurn{Turn: 3 * time.Second}
		default:
			if saved > 0 { // it is known now
				require.LessOrEqual(t, x.in.Share.Requests, job.Rate(1), "next to nothing")
				require.Zero(t, x.in.Share.First)
			}
			if x.in.Stage.Name == "save" {
				beside += w.inStage("ask")
				saved++
			}
			x.took = time.Second
			x.result.Turns, x.result.Totals.Busy = 0, 0
			x.result.NextTurn = wire.NextTurn{Turn: x.in.Share.First.Turn - x.took}
		}
	}
	report := w.mustRun()
	require.EqualValues(t, 1000, report.OK)
	require.Equal(t, asked, saved)
	require.GreaterOrEqual(t, beside, asked-2, "all but the first, and what follows the last")
}

// H2: a stage that makes requests keeps the limits after batches that needed none: their items were reused, carried, or
// failed before a request.
func TestLimits_BatchesWithoutRequests(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]func(e *wire.ProcessResult){
		"reused":  func(r *wire.ProcessResult) { r.Entry.Reused = r.Entry.OK },
		"failed":  func(r *wire.ProcessResult) { r.Entry.OK, r.Entry.Failed = 0, r.Entry.OK },
		"carried": func(r *wire.ProcessResult) { r.Carried.Items = r.Entry.OK },
		"dropped": func(r *wire.ProcessResult) { r.Entry.Dropped = r.Entry.OK },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 1000)
			w.perBatch, w.took = 100, time.Second
			w.spec.Pool, w.spec.Stages = "", []job.Stage{{Name: "ask", Pool: "thumbs"}, {Name: "save", Pool: "second"}}
			w.spec.RequestRate = 600_000 // ten a second
			w.spec = w.spec.WithDefaults()
			asked := 0
			w.process = func(x *execution) {
				x.passOn()
				if x.in.Stage.Name != "ask" {
					return
				}
				require.Greater(t, x.in.Share.Requests, job.Rate(1), "batch %d", x.number)
				asked++
				x.result.Totals.Busy, x.result.Paced = x.took, x.took // one of them at a time
				switch first := name == "dropped"; {
				case (asked <= 3) == first, asked > 7:
					x.result.Turns = x.result.Entry.Count
				default:
					without(&x.result)
				}
			}
			w.mustRun()
			require.Equal(t, 10, asked)
		})
	}
}
