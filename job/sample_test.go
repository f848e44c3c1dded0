package job

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/samples"
	"github.com/stretchr/testify/require"
)

// lived is a report of a job that has done 10 items a second for 20 s, and 1 a second for another 20 s.
func lived() Report {
	var s samples.Series
	at := time.Unix(1_800_000_000, 0).UTC()
	for i := range 20 {
		s.Add(at, at.Add(time.Second), samples.Counts{samples.OK: 9, samples.Failed: 1, samples.Retries: int64(i % 2)}, "5203 10:9 12:1")
		at = at.Add(time.Second)
	}
	s.Add(at, at.Add(20*time.Second), samples.Counts{samples.OK: 20}, "2000 10:20")
	return Report{Started: at, Outcomes: Outcomes{Totals: Totals{OK: 200, Failed: 20}, Life: s.Pack()}}
}

// M9: samples come from a report's life, and go back into it; as JSON they lack the times of calls only.
func TestReport_WithSamples(t *testing.T) {
	t.Parallel()
	r := lived()
	shown := r.WithSamples()
	require.Nil(t, shown.Life)
	require.NotNil(t, r.Life)
	last := shown.Samples[len(shown.Samples)-1]
	require.Equal(t, Sample{At: time.Unix(1_800_000_040, 0).UTC(), OK: 200, Failed: 20}, Sample{At: last.At, OK: last.OK, Failed: last.Failed})
	require.EqualValues(t, 220, last.Done())
	require.Equal(t, 5203*time.Microsecond, shown.Samples[4].Max)
	require.Greater(t, shown.Samples[4].P95, shown.Samples[4].P50)
	require.Equal(t, shown, shown.WithSamples())
	require.Equal(t, r, shown.WithLife())
	require.Equal(t, Report{}, Report{}.WithSamples())
	require.Equal(t, Report{}, Report{}.WithLife())

	data, err := json.Marshal(shown)
	require.NoError(t, err)
	require.Contains(t, string(data), `"samples":[{"at":"2027-01-15T08:00:00Z","ok":0}`)
	require.NotContains(t, string(data), `"life"`)
	var read Report
	require.NoError(t, json.Unmarshal(data, &read))
	again := read.WithLife().WithSamples()
	require.Equal(t, len(shown.Samples), len(again.Samples))
	for i, s := range again.Samples {
		want := shown.Samples[i]
		require.Equal(t, Sample{At: want.At, OK: want.OK, Failed: want.Failed, Retries: want.Retries}, s)
	}
}

func TestReport_Rates(t *testing.T) {
	t.Parallel()
	r := lived().WithSamples()
	require.InDeltaSlice(t, []float64{10, 10, 1, 1}, r.Rates(4), 0.3)
	require.InDeltaSlice(t, []float64{5.5}, r.Rates(1), 1e-6)
	sum := 0.0
	for _, rate := range r.Rates(37) {
		sum += rate * 40 / 37
	}
	require.InDelta(t, 220, sum, 1e-6)
	require.Nil(t, Report{}.Rates(4))
	at := time.Unix(1_800_000_000, 0)
	require.Nil(t, Report{Samples: []Sample{{At: at}, {At: at, OK: 5}}}.Rates(4))
	end := Report{Samples: []Sample{{At: at}, {At: at.Add(4 * time.Second)}, {At: at.Add(4 * time.Second), OK: 5}}}
	require.InDeltaSlice(t, []float64{0, 5}, []float64{end.Rates(4)[0], end.Rates(4)[3]}, 1e-6)
	once := Report{Samples: []Sample{{At: at}, {At: at, OK: 5}, {At: at.Add(4 * time.Second), OK: 5}}}
	require.InDeltaSlice(t, []float64{5, 0, 0, 0}, once.Rates(4), 1e-6)
}

// M9: the samples of a job agree with its report, also where others than its legs have counted.
func TestReport_SettleLife(t *testing.T) {
	t.Parallel()
	r := lived()
	r.OK += 1000
	r.SettleLife()
	all := r.WithSamples().Samples
	require.EqualValues(t, 1000, all[0].OK)
	require.EqualValues(t, 1220, all[len(all)-1].Done())
}

// M9: the slowest batches of all legs.
func TestOutcomes_Slowest(t *testing.T) {
	t.Parallel()
	var all, leg Outcomes
	at := time.Unix(1_800_000_000, 0)
	for i := range 20 {
		took := time.Duration(i*7%20) * time.Second
		leg.NoteSlow(SlowBatch{Number: int64(i), Took: took, Ended: at})
		if i%4 == 3 {
			all.Add(leg)
			leg = Outcomes{}
		}
	}
	require.Len(t, all.Slowest, limits.MaxSlowest)
	for i, b := range all.Slowest {
		require.Equal(t, time.Duration(19-i)*time.Second, b.Took)
	}
}
