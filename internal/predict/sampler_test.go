package predict

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// Calls have one item, and as many as the handler takes, in turn. Those that look for a fault do not count.
func TestSampler_CallsOfTwoSizes(t *testing.T) {
	t.Parallel()
	s := &Sampler{}
	h, _ := s.Open(&callstest.Handler{
		Size: calls.CallSize{Items: 9, Bytes: 77}, Do: func(*calls.Call) error { return nil },
	}, calls.Unobserved{})
	call := func(items int, isolating bool) {
		require.NoError(t, h.Call(&calls.Call{Items: make([]calls.Item, items), Isolating: isolating}))
	}
	for range 3 {
		require.Equal(t, calls.CallSize{Items: 1, Bytes: 77}, h.CallSize())
		require.Equal(t, 1, h.CallSize().Items, "as long as there is no call")
		call(1, false)
		require.Equal(t, 9, h.CallSize().Items)
		call(1, true)
		require.Equal(t, 9, h.CallSize().Items)
		call(4, false)
	}
}

// What the sample has shown: of each stage, without the calls that warm up, and with the original places of its items.
func TestSampler_Shows(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(1000))
	f.spec.Stages = []job.Stage{{Name: "a", Pool: "p"}, {Name: "b", Pool: "p"}}
	f.spec.Pool = ""
	f.spec = f.spec.WithDefaults()
	d := f.draw(100)
	s := sampler(25, Setup{Slots: 2, Workers: 1})
	for i := range 12 {
		took := 10 * time.Millisecond
		if i < 2 {
			took = time.Minute
		}
		s.ended(calls.CallStats{Stage: "a", Items: 5, Took: took})
		s.ended(calls.CallStats{Stage: "b", Items: 5, Took: 2 * took})
	}
	s.ended(calls.CallStats{Stage: "b", Fault: job.KindError, Took: time.Second})
	s.ended(calls.CallStats{Stage: "b", Cut: true, Took: time.Second})
	p := d.PredictStages(job.Report{
		Outcomes: job.Outcomes{Totals: job.Totals{OK: 90, Failed: 10}, FirstError: &job.FirstError{Item: 3, Kind: job.KindError}, Stages: []job.StageReport{{Stage: "a", Done: 100, Failed: 5}, {Stage: "b", Done: 95, Failed: 5}}},
	}, 500, map[string]*Sampler{"p": s})
	require.Equal(t, d.ordinals[3], p.Sample.FirstError.Item)
	require.Equal(t, "b", p.Slowest)
	require.Equal(t, 24, p.Sample.Calls)
	require.Equal(t, 1, p.Sample.FailedCalls)
	require.EqualValues(t, 5000, p.ResultBytes)
	require.GreaterOrEqual(t, p.Sample.Took, 2*time.Minute)
	require.EqualValues(t, 1000, p.Stages[0].Items)
	require.EqualValues(t, 950, p.Stages[1].Items)
	require.EqualValues(t, 95, p.Stages[0].Sample.OK)
	require.EqualValues(t, 5, p.Stages[1].Sample.Failed)
	require.InDelta(t, 0.002, p.Stages[0].ItemSeconds.Value, 1e-9)
	require.InDelta(t, 0.004+1./95, p.Stages[1].ItemSeconds.Value, 1e-9)
}

// 14.12: a handler that does nothing but ask for less work is given up; one that answers now and then is not.
func TestSampler_GivesUp(t *testing.T) {
	t.Parallel()
	var gaveUp []error
	s := &Sampler{GiveUp: func(err error) { gaveUp = append(gaveUp, err) }}
	for range 3 {
		for range maxIdle - 1 {
			s.ended(calls.CallStats{Refused: true})
		}
		s.ended(calls.CallStats{Refused: true, Items: 1})
	}
	require.Empty(t, gaveUp)
	for range 2 * maxIdle {
		s.ended(calls.CallStats{Refused: true, Cut: true})
	}
	require.Len(t, gaveUp, 1)
	require.ErrorContains(t, gaveUp[0], "asked 20 times in a row for less work")
	shown, _, _ := s.of("")
	require.Equal(t, 3*maxIdle+2*maxIdle, shown.SlowDowns)
}
