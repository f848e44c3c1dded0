package predict

import (
	"cmp"
	"math"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// sampler is one whose handler takes up to so many items.
func sampler(items int, setup Setup) *Sampler {
	s := &Sampler{Setup: setup}
	s.Open(&callstest.Handler{Size: calls.CallSize{Items: items}}, calls.Unobserved{})
	return s
}

// A handler that takes three milliseconds for a call and one for each item: the prediction is the truth.
func TestPredict_KnownSpeed(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(5000))
	f.spec.BatchItems = 50
	d := f.draw(200)
	s := sampler(25, Setup{Slots: 4, Workers: 2, Ready: time.Second})
	for i := range 24 {
		items := 1 + i%2*24
		s.ended(calls.CallStats{Items: items, Took: time.Duration(3+items) * time.Millisecond})
	}
	report := job.Report{Outcomes: job.Outcomes{Totals: job.Totals{OK: 200}}}
	p := d.Predict(report, 2000, s)
	require.Equal(t, 8, p.Parallel)
	require.InDelta(t, 0.003, p.StartSeconds, 1e-9)
	require.EqualValues(t, 25, p.CallItems)
	require.InDelta(t, 0.001+0.003/25, p.ItemSeconds.Value, 1e-9)
	require.EqualValues(t, 100, p.Batches)
	require.EqualValues(t, 50, p.BatchItems)
	require.EqualValues(t, 50_000, p.ResultBytes)
	// 100 batches of 50 items, eight at once, and what is taken as given.
	truth := 100./8*(50*0.00112+batchSeconds) + startSeconds + 1 + float64(p.Bytes+p.ResultBytes)/streamBytes
	require.InDelta(t, truth, p.Seconds.Value, 1e-6)
	require.LessOrEqual(t, *p.Seconds.Low, truth+1e-6)
	require.GreaterOrEqual(t, *p.Seconds.High, truth-1e-6)
	require.InDelta(t, *p.Seconds.Low, *p.Seconds.High, 1e-6, "nothing varies")

	d.spec.JobRate = wire.Per(10, time.Second)
	require.InDelta(t, 501, d.Predict(report, 2000, s).Seconds.Value, 1, "the job's rate holds it up")
}

// 14.12: a job whose handler asks for less is predicted to be no faster than the sample was.
func TestPredict_HandlerThatAsksForLess(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(5000))
	sample := Sample{Items: 50, OK: 50, SlowDowns: 1, Took: 50 * time.Second, timed: []timing{{1, time.Millisecond}}}
	p := Predict(f.survey(), sample, &callstest.Handler{}, f.spec, Setup{Slots: 4, Workers: 1})
	require.InEpsilon(t, 5000, p.Seconds.Value, 0.02)
}

// A sample of which every item fails is predicted, too.
func TestPredict_HandlerThatFails(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(50))
	s := sampler(25, Setup{Slots: 2, Workers: 1})
	s.ended(calls.CallStats{Fault: job.KindError, Took: time.Second})
	p := f.draw(20).Predict(job.Report{Outcomes: job.Outcomes{Totals: job.Totals{Failed: 20}}}, 0, s)
	require.Zero(t, p.Sample.OK)
	require.EqualValues(t, 20, p.Sample.Failed)
	require.Zero(t, p.Sample.Calls)
	require.Equal(t, 1, p.Sample.FailedCalls)
	require.Positive(t, p.Seconds.Value)
	require.Nil(t, p.Seconds.Low)
}

// If times vary, the bounds hold the truth about as often as they say.
func TestPredict_Bounds(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 5)
	const start, item, rounds = 0.004, 0.0005, 200
	held := 0
	for range rounds {
		s := Sample{Items: 500}
		for i := range 24 {
			n := 1
			if i%2 == 0 {
				n = 40
			}
			took := start * (0.5 + random.Float64())
			for range n {
				took += item * random.ExpFloat64()
			}
			s.timed = append(s.timed, timing{n, time.Duration(took * 1e9)})
		}
		m := newTimeModel(s, &callstest.Handler{Size: calls.CallSize{Items: 100}})
		m.most = 100
		e := m.estimate(random.Uint64(), speedOf.each)
		require.LessOrEqual(t, *e.Low, e.Value)
		require.GreaterOrEqual(t, *e.High, e.Value)
		if truth := item + start/100; *e.Low <= truth && truth <= *e.High {
			held++
		}
	}
	t.Logf("%d of %d", held, rounds)
	require.Greater(t, held, rounds*88/100)
}

func TestLeastSquares(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	for _, test := range []struct {
		name        string
		timed       []timing
		start, item float64
	}{
		{"none", nil, 0, 0},
		{"a line", []timing{{1, 5 * ms}, {10, 14 * ms}, {4, 8 * ms}}, 0.004, 0.001},
		{"one size", []timing{{2, 4 * ms}, {2, 8 * ms}}, 0, 0.003},
		{"larger ones are quicker", []timing{{1, 9 * ms}, {10, 3 * ms}}, 0.006, 0},
		{"nothing for the start", []timing{{1, ms}, {10, 19 * ms}}, 0, 191. / 101 / 1000},
	} {
		start, item := leastSquares(test.timed)
		require.InDelta(t, test.start, start, 1e-9, test.name)
		require.InDelta(t, test.item, item, 1e-9, test.name)
	}
}

// Batches are counted as Plan cuts them.
func TestSurvey_CutByTheHandlersSpeed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		items int
		rate  int64
		fixed int64
	}{{20_000, 1000, 0}, {20_000, 300_000, 0}, {20_000, 100_000_000, 0}, {20, 1000, 0}, {500, 100, 0}, {5000, 1000, 7}, {130, 1000, 1}} {
		f := setup(t, "in.jsonl", jobtest.Lines(test.items))
		f.spec.BatchItems = test.fixed
		survey := f.survey()
		batches, legs := survey.cutBy(f.spec, wire.Sizing{Rate: test.rate})
		planned, pages := int64(0), int64(0)
		for done := false; !done; pages++ {
			in := wire.PlanInput{Ref: f.ref, Spec: f.spec, From: f.next, Batches: wire.FirstPage}
			if pages > 0 {
				in.Batches, in.Sizing.Rate = wire.PageBatches, test.rate
			}
			result := f.page(in)
			page, err := wire.DecodePage(result.Page)
			require.NoError(t, err)
			planned += int64(len(page))
			f.ref.Sources, f.next, done = cmp.Or(f.ref.Sources, result.Sources), result.Next, result.Done
		}
		require.InEpsilon(t, planned, batches, 0.1, "%+v: Plan knows the sizes of items so far only", test)
		if planned > wire.FirstPage+wire.InsideBatches {
			require.Equal(t, pages, legs, "%+v", test)
		} else {
			require.EqualValues(t, 1, legs, "the job runs them itself: %+v", test)
		}
	}
}

// However large the input is, counting its batches takes no longer.
func TestSurvey_CutsHugeInputs(t *testing.T) {
	t.Parallel()
	s := Survey{Items: 2e15, sources: []counted{{1e15, 1e17}, {1e15, 1e17}}}
	batches, legs := s.cutBy(job.Spec{}, wire.Sizing{Rate: math.MaxInt64})
	require.InEpsilon(t, 2e15/inputs.MaxAutoItems, float64(batches), 0.01)
	require.InEpsilon(t, float64(batches)/wire.PageBatches, float64(legs), 0.01)
	batches, _ = s.cutBy(job.Spec{BatchItems: 1}, wire.Sizing{Rate: 1})
	require.EqualValues(t, 2e15, batches)
}

// Batches that take minutes rest, and heartbeat meanwhile.
func TestPredict_LongBatches(t *testing.T) {
	t.Parallel()
	spec := job.Spec{Expiry: 30 * time.Second}
	p := Prediction{Survey: Survey{Items: 1000, Batches: 10}}
	p.addRests(speedOf{item: 0.01}, spec)
	require.Zero(t, p.Actions, "a second each")
	p.addRests(speedOf{item: 4}, spec) // 400 s each: a minute, two and the rest
	require.EqualValues(t, 10*2*batchEventsTenths/10, p.Events, "two more executions each")
	require.EqualValues(t, 10*(2+1+16), p.Actions)
}
