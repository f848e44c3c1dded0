package samples_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stint-run/stint/internal/base/samples"
	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 11, 3, 14, 2, 31, 123e6, time.UTC)

// batch is something that was done.
type batch struct {
	began, ended time.Time
	n            samples.Counts
	calls        calltimes.Text
}

// drawn returns batches of a life of random length, now and then with a pause.
func drawn(r *rand.Rand) (all []batch) {
	at, usual := start, time.Duration(1)<<r.IntN(40)
	for range r.IntN(2000) {
		at = at.Add(time.Duration(r.Int64N(int64(usual))))
		if r.IntN(200) == 0 {
			at = at.Add(time.Duration(r.Int64N(int64(time.Hour)*1000 + 1)))
		}
		b := batch{began: at.Add(-time.Duration(r.Int64N(int64(8 * usual)))), ended: at}
		for i := range b.n {
			if r.IntN(3) == 0 {
				b.n[i] = r.Int64N(1 << r.IntN(30))
			}
		}
		var timer calltimes.Timer
		for range r.IntN(20) {
			timer.Add(time.Duration(1) << r.IntN(45))
		}
		b.calls = calltimes.Text(timer.String())
		all = append(all, b)
	}
	return all
}

func sum(all []batch) (n samples.Counts, calls calltimes.Text) {
	for _, b := range all {
		for i := range n {
			n[i] += b.n[i]
		}
		calls = calls.Plus(b.calls)
	}
	return n, calls
}

func added(all []batch, grain int) *samples.Series {
	s := samples.New(grain)
	for _, b := range all {
		s.Add(b.began, b.ended, b.n, b.calls)
	}
	return s
}

// requireTrue checks that samples are those of a job that has come to these numbers.
func requireTrue(t *testing.T, all []samples.Sample, n samples.Counts, calls calltimes.Text) {
	t.Helper()
	require.LessOrEqual(t, len(all), samples.Most)
	var events samples.Counts
	longest := time.Duration(0)
	for i, s := range all {
		events[samples.Expiries] += s.Expiries
		events[samples.Deaths] += s.Deaths
		events[samples.Retries] += s.Retries
		longest = max(longest, s.Max)
		require.LessOrEqual(t, s.P50, s.P95)
		require.LessOrEqual(t, s.P95, s.Max)
		if i > 0 {
			before := all[i-1]
			require.False(t, s.At.Before(before.At), "%d: %v, and before %v", i, s.At, before.At)
			require.True(t, s.OK >= before.OK && s.Failed >= before.Failed && s.Reused >= before.Reused, i)
		}
	}
	if len(all) == 0 {
		all = make([]samples.Sample, 1)
	}
	last := all[len(all)-1]
	require.Equal(t, n, samples.Counts{last.OK, last.Failed, last.Reused, events[samples.Expiries], events[samples.Deaths], events[samples.Retries]})
	require.Equal(t, calls.Longest(), longest)
}

// Whatever is added, in whatever order and however it is put together: the samples are few and in order, and everything
// is in them.
func TestSeries_KeepsWhatIsAdded(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	for i := range 40 {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		all := drawn(r)
		n, calls := sum(all)
		t.Logf("seed %d, %d: %d batches", seed, i, len(all))

		s := added(all, 0)
		require.Equal(t, n, s.Sum())
		requireTrue(t, s.Samples(), n, calls)
		packed := s.Pack()
		require.LessOrEqual(t, len(packed), samples.MaxBytes)
		requireTrue(t, packed.Series().Samples(), n, calls)
		require.Equal(t, packed, packed.Series().Pack())
		require.Equal(t, s.Samples(), packed.Series().Samples())
		require.Equal(t, packed.Series().Samples(), samples.Of(s.Samples()).Pack().Series().Samples(), "of its own samples")

		shuffled := slices.Clone(all) // as several legs have them
		r.Shuffle(len(all), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		cut := r.IntN(len(all) + 1)
		a, b := added(shuffled[:cut], r.IntN(4)).Pack(), added(shuffled[cut:], packed.Grain()).Pack()
		together := a.Plus(b)
		require.LessOrEqual(t, len(together), samples.MaxBytes)
		requireTrue(t, together.Series().Samples(), n, calls)
		require.Equal(t, together, b.Plus(a))
		require.Equal(t, together, together.Plus(nil))
	}
}

// A long life has samples all over it, also after a pause that is longer than all the rest.
func TestSeries_ThinsOutEvenly(t *testing.T) {
	t.Parallel()
	var s samples.Series
	at := start
	for range 100_000 {
		at = at.Add(time.Second)
		s.Add(at.Add(-3*time.Second), at, samples.Counts{samples.OK: 100}, "5203 10:3 12:97")
	}
	all := s.Samples()
	require.Greater(t, len(all), samples.Most/3)
	for i := 2; i < len(all)-1; i++ {
		a, b := all[i-1], all[i]
		require.InDelta(t, 100, float64(b.OK-a.OK)/b.At.Sub(a.At).Seconds(), 1)
		require.Equal(t, all[1].At.Sub(all[0].At).Truncate(time.Hour), b.At.Sub(a.At).Truncate(time.Hour))
		require.InDelta(t, 3e6, b.P50.Nanoseconds(), 3e6)
		require.Equal(t, 5203*time.Microsecond, b.Max)
	}
	require.Less(t, base64.StdEncoding.EncodedLen(len(s.Pack())), 8<<10)

	var paused samples.Series
	add := func(at time.Time) { paused.Add(at, at.Add(time.Second), samples.Counts{samples.OK: 1000}, "") }
	for i := range 20 {
		add(start.Add(time.Duration(i) * time.Second))
	}
	add(start.Add(24 * 365 * time.Hour))
	all = paused.Samples()
	require.Greater(t, len(all), 60, "the pause does not make the rest coarse")
	last := all[len(all)-1]
	require.EqualValues(t, 21_000, last.OK)
	require.Equal(t, start.Add(24*365*time.Hour+time.Second), last.At)
	idle := all[len(all)-6]
	require.EqualValues(t, 20_000, idle.OK, "%v", all[len(all)-7:])
	require.Less(t, start.Add(24*365*time.Hour).Sub(idle.At), time.Second, "one at the end of the pause")
}

// Items are spread over the time that their batch took; events are at its end.
func TestSeries_Add(t *testing.T) {
	t.Parallel()
	var s samples.Series
	begin := time.Unix(1_800_000_000, 0).UTC()
	require.Nil(t, s.Samples())
	require.Nil(t, s.Pack())
	s.Add(begin, begin.Add(time.Second), samples.Counts{samples.OK: 8, samples.Retries: 1}, "2000 10:4")
	var got []string
	for _, one := range s.Samples() {
		got = append(got, fmt.Sprintf("%v %d %d %v", one.At.Sub(begin), one.OK, one.Retries, one.Max))
	}
	require.Equal(t, []string{"0s 0 0 0s", "250ms 2 0 2ms", "500ms 4 0 2ms", "750ms 6 0 2ms", "1s 8 1 2ms"}, got)

	s.Add(begin, begin.Add(2*time.Second), samples.Counts{samples.OK: -5, samples.Retries: -1}, "")
	all := s.Samples()
	require.EqualValues(t, 3, all[len(all)-1].OK)
	require.Zero(t, all[len(all)-1].Retries)
	require.EqualValues(t, 2, all[1].OK, "what was added last is taken back")
}

// What earlier runs have done at times that are not known is there at the beginning.
func TestSeries_Settle(t *testing.T) {
	t.Parallel()
	var s samples.Series
	s.Settle(start, samples.Counts{samples.OK: 70, samples.Failed: 3})
	require.Equal(t, []samples.Sample{{At: start, OK: 70, Failed: 3}}, s.Samples())
	s.Add(start, start.Add(time.Second), samples.Counts{samples.OK: 10}, "")
	packed := s.Pack()
	require.Equal(t, samples.Counts{samples.OK: 80, samples.Failed: 3}, packed.Series().Sum())
	require.EqualValues(t, 70, packed.Series().Samples()[0].OK)

	require.Equal(t, samples.Counts{samples.OK: 75}, packed.Settled(start, samples.Counts{samples.OK: 75}).Series().Sum())
	require.EqualValues(t, 60, packed.Settled(start, samples.Counts{samples.OK: 60}).Series().Samples()[0].OK)
	require.EqualValues(t, 90, packed.Settled(start, samples.Counts{samples.OK: 100}).Series().Samples()[0].OK)
	require.Equal(t, packed, packed.Settled(start, samples.Counts{samples.OK: 80, samples.Failed: 3}))
}

// What comes from elsewhere does no harm.
func TestPacked_OfAnything(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	good := added(drawn(r), 0).Pack()
	for range 2000 {
		bad := slices.Clone(good[:r.IntN(len(good)+1)])
		for range r.IntN(5) {
			if len(bad) > 0 {
				bad[r.IntN(len(bad))] = byte(r.Uint32())
			}
		}
		_ = bad.Plus(good).Series().Samples()
	}
}

func BenchmarkSeries_Add(b *testing.B) {
	var s samples.Series
	at := start
	for b.Loop() {
		at = at.Add(time.Second)
		s.Add(at.Add(-3*time.Second), at, samples.Counts{samples.OK: 100}, "5203 10:3 12:97")
	}
}

func BenchmarkPacked_Plus(b *testing.B) {
	var s samples.Series
	for i := range 1000 {
		at := start.Add(time.Duration(i) * time.Second)
		s.Add(at.Add(-3*time.Second), at, samples.Counts{samples.OK: 100}, "5203 10:3 12:97")
	}
	packed := s.Pack()
	for b.Loop() {
		packed.Plus(packed)
	}
}
