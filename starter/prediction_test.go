package starter

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/predict"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestSpan(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{
		0: "0 µs", 3.4e-6: "3.4 µs", 0.0123: "12.3 ms", 1.25: "1.2 s", 42.4: "42 s", 100: "100 s", 119: "119 s", 600: "10 min",
		15_000: "4 h 10 min", 35_999: "10 h 0 min", 200_000: "2 d 8 h", 1e300: "46,296 d 7 h",
	} {
		require.Equal(t, want, span(seconds), "%v", seconds)
	}
}

// 14.12: a range is printed only if it is narrower than a factor of three.
func TestBounds(t *testing.T) {
	t.Parallel()
	estimate := func(low, high float64) predict.Estimate { return predict.Estimate{Value: 10, Low: &low, High: &high} }
	require.Equal(t, " (95 %: 5.0 s to 14 s)", bounds(estimate(5, 14.4)))
	require.Empty(t, bounds(estimate(5, 15)))
	require.Empty(t, bounds(predict.Estimate{Value: 10}))
	var b strings.Builder
	wide := predict.Prediction{Seconds: estimate(1, 20), Sample: predict.Sample{Items: 100, SlowDowns: 1}}
	require.NoError(t, printPrediction(&b, wide))
	require.Contains(t, b.String(), "about 10 s with 0 slots here\n")
	require.Contains(t, b.String(), "too different times for a range of the whole time: try 400 items\n")
	require.Contains(t, b.String(), "1 slow-down request of the handler waited out")
}

func TestRound(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1234: "1,230", 56_789: "56,800", 9_999_999: "10,000,000"} {
		require.Equal(t, want, round(n))
	}
}

// 14: how the predictions of `plan --sample` read.
func TestPrintPrediction(t *testing.T) {
	t.Parallel()
	estimate := func(v, low, high float64) predict.Estimate {
		return predict.Estimate{Value: v, Low: &low, High: &high}
	}
	survey := predict.Survey{Inputs: 1, Items: 10_000, Bytes: 1_234_567, Batches: 42, Legs: 1, Events: 412, Actions: 98}
	sample := predict.Sample{Items: 200, OK: 198, Failed: 2, Calls: 48, FailedCalls: 2, Took: 1340 * time.Millisecond,
		FirstError: &job.FirstError{Item: 1716, Kind: job.KindExit, Error: job.Error{Type: "Exit", Message: "exit 7: no bird\nmore"}}}
	var b strings.Builder
	require.NoError(t, printPrediction(&b, predict.Prediction{
		Survey: survey, Sample: sample, Slots: 8, Workers: 4, Parallel: 32, Seconds: estimate(42, 37, 51), ItemSeconds: estimate(0.021, 0.018, 0.025),
		StartSeconds: 0.0043, CallItems: 230, BatchItems: 238, ResultBytes: 456_000, MemoryBytes: 187e6,
	}))
	require.Equal(t, `10,000 items in 1 input (1.2 MB)
about 42 s (95 %: 37 s to 51 s) on 4 workers like this one with 8 slots each
42 batches of about 238 items, 1 leg
about 412 events of history, 98 actions on Temporal Cloud
about 456 kB of results; about 187 MB of memory for a worker with the server in it, and what the command takes

sample    200 items from all over the inputs: 198 ok, 2 failed, in 50 calls, 1.34s
          first failed item: 1,716: exit 7: no bird
measured  an item takes 21 ms (95 %: 18 ms to 25 ms) of a slot, with its share of 4.3 ms to start a call of 230 items
assumed   a batch takes 10 ms beside its calls, the server does 300 batches a second, input and
          output pass at 500 MB/s; items that were not drawn are like those that were; nothing else
          keeps the machine busy; memory is a guess (a quarter more or less)
`, b.String())

	b.Reset()
	survey.Steps = 2
	require.NoError(t, printPipeline(&b, predict.Pipeline{
		Survey: survey, Sample: sample, Slowest: "score", Seconds: estimate(42, 37, 51), Workers: 1, BatchItems: 238, ResultBytes: 456_000,
		Stages: []predict.StagePrediction{
			{Stage: "clean", Pool: "strings", Slots: 2, Items: 10_000, Sample: predict.Sample{OK: 198, Failed: 2}, Seconds: estimate(3, 1, 4), ItemSeconds: predict.Estimate{Value: 0.00031}},
			{Stage: "score", Pool: "model", Slots: 8, Items: 9_900, Sample: predict.Sample{OK: 198}, Seconds: estimate(41, 36, 50), ItemSeconds: predict.Estimate{Value: 0.033}},
		},
	}))
	require.Equal(t, `10,000 items in 1 input (1.2 MB)
about 42 s (95 %: 37 s to 51 s) with 1 worker of each pool like this one: the slowest stage is score
42 batches of about 238 items, at most 2 executions of each, 1 leg
about 412 events of history, 98 actions on Temporal Cloud; about 456 kB of results

STAGE  POOL     SLOTS  ITEMS   OK   FAILED  AN ITEM TAKES  ALL TAKE
clean  strings  2      10,000  198  2       310 µs         3.0 s
score  model    8      9,900   198  0       33 ms          41 s (95 %: 36 s to 50 s)

sample    200 items from all over the inputs: 198 ok, 2 failed, in 50 calls, 1.34s
          first failed item: 1,716: exit 7: no bird
assumed   all pools work at the same time and do not get into each other's way; a batch takes 10 ms in
          each stage beside its calls, the server does 300 executions a second, input and output pass
          at 500 MB/s; items that were not drawn are like those that were
`, b.String())
}
