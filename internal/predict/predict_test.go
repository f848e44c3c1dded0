package predict

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/calls/callstest"
	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/internal/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// sample tries items of the fixture's input.
func (f *fixture) sample(n, parallel int) (Survey, Sample) {
	f.t.Helper()
	survey, err := f.predictor().Survey(f.t.Context(), f.spec)
	require.NoError(f.t, err)
	sample, err := f.predictor().Try(f.t.Context(), survey, f.spec, SampleOptions{Items: n, Parallel: parallel, Seed: 7})
	require.NoError(f.t, err)
	return survey, sample
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func TestDraw(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 11)
	require.Equal(t, []int64{0, 1, 2}, draw(random, 3, 3))
	require.Equal(t, []int64{0, 1, 2}, draw(random, 3, 100), "all, if there are no more")
	require.Empty(t, draw(random, 0, 5))
	const total, n, times = 20, 5, 4000
	var drawn [total]int
	for range times {
		ordinals := draw(random, total, n)
		require.Len(t, ordinals, n)
		require.True(t, slices.IsSorted(ordinals))
		require.Len(t, slices.Compact(ordinals), n, "none twice")
		for _, i := range ordinals {
			drawn[i]++
		}
	}
	for i, k := range drawn { // 1,000 each, give or take six times the deviation of 27
		require.InDelta(t, times*n/total, k, 165, "item %d", i)
	}
}

// The sample's items are those of the job, wherever they lie and whatever the input is packed in.
func TestTry_ItemsFromAllOverTheInput(t *testing.T) {
	t.Parallel()
	f := setup(t, "a.jsonl", jobtest.Lines(300), "b.csv", "n\n"+strings.Repeat("x\n", 300), "c.txt", strings.Repeat("line\n", 300))
	f.spec.Input = append(f.spec.Input, f.write("d.jsonl.gz", packed(t, jobtest.Lines(300))))
	var mu sync.Mutex
	seen := map[int64]string{}
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}, Size: calls.CallSize{Items: 10}, Each: func(c *calls.Call, item calls.Item) {
		mu.Lock()
		defer mu.Unlock()
		require.NotContains(t, seen, item.Ordinal)
		seen[item.Ordinal] = string(item.Data)
		c.Answer.Line(item.Data)
	}})
	survey, sample := f.sample(200, 3)
	require.EqualValues(t, 1200, survey.Items)
	require.Len(t, seen, 200)
	require.Equal(t, 200, sample.Items)
	require.EqualValues(t, 200, sample.OK)
	require.Zero(t, sample.Failed)
	quarters := [4]int{}
	for ordinal, data := range seen {
		quarters[ordinal/300]++
		want := map[int64]string{0: fmt.Sprintf(`{"n":%d}`, ordinal), 1: `{"n":"x"}`, 2: "line", 3: fmt.Sprintf(`{"n":%d}`, ordinal-900)}
		require.Equal(t, want[ordinal/300], data)
	}
	for _, n := range quarters {
		require.Greater(t, n, 20)
	}
	require.Equal(t, sample.Bytes+200, sample.ResultBytes, "an echo, and a line end each")
	require.NoDirExists(t, f.spec.Store, "nothing is written")
}

func TestTry_CallsOfTwoSizes(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(1000))
	for _, test := range []struct{ items, most, calls, largest int }{
		{1, 100, 1, 1}, {2, 100, 2, 1}, {20, 100, 5, 9}, {1000, 1 << 20, 25, 83}, {1000, 50, 37, 50}, {100, 1, 100, 1},
	} {
		h := &callstest.Handler{Size: calls.CallSize{Items: test.most}}
		f.serve(h)
		_, sample := f.sample(test.items, 2)
		require.Equal(t, test.items, sample.Items)
		require.EqualValues(t, test.items, sample.OK)
		require.Equal(t, 1, h.Sizes()[0], "a small one warms up")
		require.InDelta(t, test.largest, slices.Max(h.Sizes()), 1, "%+v: %v", test, h.Sizes())
		require.InDelta(t, test.calls, len(h.Sizes()), 2, "%+v: %v", test, h.Sizes())
	}
}

func TestTry_Failures(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(50)+"not JSON\n")
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.CheckedJSON}, Each: func(c *calls.Call, item calls.Item) {
		switch item.Ordinal {
		case 7, 30:
			c.Answer.Fail(calls.FaultOf(fmt.Errorf("no %d", item.Ordinal)), 1)
		case 8:
			c.Answer.Drop()
		default:
			c.Answer.Line(item.Data)
		}
	}})
	_, sample := f.sample(1000, 2)
	require.Equal(t, 51, sample.Items, "all there are")
	require.EqualValues(t, 48, sample.OK)
	require.EqualValues(t, 1, sample.Dropped)
	require.EqualValues(t, 3, sample.Failed)
	require.Equal(t, &job.FirstError{Item: 7, Kind: job.KindError, Error: job.Error{Type: "error", Message: "no 7"}}, sample.FirstError)

	f.serve(&callstest.Handler{Do: func(*calls.Call) error { return errors.New("always") }})
	survey, sample := f.sample(20, 2)
	require.Zero(t, sample.OK)
	require.EqualValues(t, 20, sample.Failed)
	require.Zero(t, sample.Calls)
	require.Positive(t, sample.FailedCalls)
	p := Predict(survey, sample, &callstest.Handler{}, f.spec, Setup{Slots: 2, Workers: 1})
	require.Positive(t, p.Seconds.Value)
	require.Nil(t, p.Seconds.Low)
}

// 14.12: a sample waits out slow-down requests; every item has its outcome, and the job is predicted to be no faster than the sample was.
func TestTry_HandlerThatAsksForLess(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(5000))
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		var mu sync.Mutex
		var free time.Time // when the handler takes the next item: one a second
		f.serve(&callstest.Handler{Size: calls.CallSize{Items: 5}, Do: func(c *calls.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if now := time.Now(); now.Before(free) || len(c.Items) > 2 {
				c.SlowDown(max(time.Second, free.Sub(now)))
				return nil
			}
			free = time.Now().Add(time.Duration(len(c.Items)) * time.Second)
			return callstest.Echo(c)
		}})
		began := time.Now()
		survey, sample := f.sample(50, 4)
		require.EqualValues(t, 50, sample.OK)
		require.Zero(t, sample.Failed)
		require.Greater(t, sample.SlowDowns, 10)
		took := time.Since(began)
		require.GreaterOrEqual(t, took, 48*time.Second, "as long as the handler wants")
		p := Predict(survey, sample, f.handler, f.spec, Setup{Slots: 4, Workers: 1})
		require.InEpsilon(t, 100*took.Seconds(), p.Seconds.Value, 0.02)
	})
}

func TestTry_HandlerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(50))
	synctest.Test(t, func(t *testing.T) {
		f.serve(&callstest.Handler{Do: func(c *calls.Call) error {
			c.SlowDown(time.Minute)
			return nil
		}})
		survey, err := f.predictor().Survey(t.Context(), f.spec)
		require.NoError(t, err)
		_, err = f.predictor().Try(t.Context(), survey, f.spec, SampleOptions{Items: 50, Parallel: 2})
		require.ErrorContains(t, err, "asked 20 times in a row for less work")
	})
}

func TestTry_IsEndedByItsContext(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(50))
	ctx, cancel := context.WithCancel(t.Context())
	f.serve(&callstest.Handler{Do: func(c *calls.Call) error {
		callCtx := c.Begin()
		cancel()
		<-callCtx.Done()
		return callCtx.Err()
	}})
	survey, err := f.predictor().Survey(t.Context(), f.spec)
	require.NoError(t, err)
	_, err = f.predictor().Try(ctx, survey, f.spec, SampleOptions{Items: 50, Parallel: 2})
	require.ErrorIs(t, err, context.Canceled)
}

func TestTry_InputThatHasChanged(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(50))
	survey, err := f.predictor().Survey(t.Context(), f.spec)
	require.NoError(t, err)
	f.write("in.jsonl", jobtest.Lines(10))
	_, err = f.predictor().Try(t.Context(), survey, f.spec, SampleOptions{Items: 50, Parallel: 2})
	jobtest.RequireType(t, err, job.ErrorChanged)
}

// A handler that takes three milliseconds for a call and one for each item, by a fake clock: the
// prediction is the truth.
func TestPredict_KnownSpeed(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(5000))
	f.spec.BatchItems = 50
	synctest.Test(t, func(t *testing.T) {
		h := &callstest.Handler{Size: calls.CallSize{Items: 25}, Do: func(c *calls.Call) error {
			time.Sleep(3*time.Millisecond + time.Duration(len(c.Items))*time.Millisecond)
			return callstest.Echo(c)
		}}
		f.serve(h)
		a := f.predictor()
		survey, err := a.Survey(t.Context(), f.spec)
		require.NoError(t, err)
		sample, err := a.Try(t.Context(), survey, f.spec, SampleOptions{Items: 200, Parallel: 4, Seed: 3})
		require.NoError(t, err)
		p := Predict(survey, sample, h, f.spec, Setup{Slots: 4, Workers: 2, Ready: time.Second})
		require.Equal(t, 8, p.Parallel)
		require.InDelta(t, 0.003, p.StartSeconds, 1e-9)
		require.EqualValues(t, 25, p.CallItems)
		require.InDelta(t, 0.001+0.003/25, p.ItemSeconds.Value, 1e-9)
		require.EqualValues(t, 100, p.Batches)
		require.EqualValues(t, 50, p.BatchItems)
		// 100 batches of 50 items, eight at once, and what is taken as given.
		truth := 100./8*(50*0.00112+batchSeconds) + startSeconds + 1 + float64(p.Bytes+p.ResultBytes)/streamBytes
		require.InDelta(t, truth, p.Seconds.Value, 1e-6)
		require.LessOrEqual(t, *p.Seconds.Low, truth+1e-6)
		require.GreaterOrEqual(t, *p.Seconds.High, truth-1e-6)
		require.InDelta(t, *p.Seconds.Low, *p.Seconds.High, 1e-6, "nothing varies")

		limited := f.spec
		limited.JobRate = job.Per(10, time.Second)
		p = Predict(survey, sample, h, limited, Setup{Slots: 4, Workers: 2})
		require.InDelta(t, 500, p.Seconds.Value, 1, "the job's rate holds it up")
	})
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
		survey, err := f.predictor().Survey(t.Context(), f.spec)
		require.NoError(t, err)
		batches, legs := survey.cutBy(f.spec, inputs.Sizing{Rate: test.rate})
		planned, pages := int64(0), int64(0)
		for done := false; !done; pages++ {
			in := inputs.PlanInput{Ref: f.ref, Spec: f.spec, From: f.next, Batches: wire.FirstPage}
			if pages > 0 {
				in.Batches, in.Sizing.Rate = wire.PageBatches, test.rate
			}
			result := f.page(in)
			page, err := inputs.DecodePage(result.Page)
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
	batches, legs := s.cutBy(job.Spec{}, inputs.Sizing{Rate: math.MaxInt64})
	require.InEpsilon(t, 2e15/inputs.MaxAutoItems, float64(batches), 0.01)
	require.InEpsilon(t, float64(batches)/wire.PageBatches, float64(legs), 0.01)
	batches, _ = s.cutBy(job.Spec{BatchItems: 1}, inputs.Sizing{Rate: 1})
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
