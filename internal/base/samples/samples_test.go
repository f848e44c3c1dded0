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
	for range r.IntN(1000) {
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
func requireTrue(t *testing.T, all []samples.Point, n samples.Counts, calls calltimes.Text) {
	t.Helper()
	require.LessOrEqual(t, len(all), samples.Most)
	var sum samples.Counts
	longest := time.Duration(0)
	for i, s := range all {
		for kind := range s.N {
			switch {
			case kind >= samples.Expiries:
				sum[kind] += s.N[kind]
			default:
				require.GreaterOrEqual(t, s.N[kind], sum[kind], i)
				sum[kind] = s.N[kind]
			}
		}
		if s.Calls != nil {
			longest = max(longest, s.Calls.Longest())
			require.LessOrEqual(t, s.Calls.Percentile(95), s.Calls.Longest())
		}
		if i > 0 {
			require.False(t, s.At.Before(all[i-1].At), "%d: %v, and before %v", i, s.At, all[i-1].At)
		}
	}
	require.Equal(t, n, sum)
	require.Equal(t, calls.Longest(), longest)
}

// M9: whatever is added, in whatever order and however it is put together: the samples are few and in order, and everything
// is in them.
func TestSeries_KeepsWhatIsAdded(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	for i := range 20 {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		all := drawn(r)
		n, calls := sum(all)
		t.Logf("seed %d, %d: %d batches", seed, i, len(all))

		s := added(all, 0)
		require.Equal(t, n, s.Sum())
		requireTrue(t, s.Points(), n, calls)
		before := s.Points()
		packed := s.Pack()
		require.Equal(t, before, s.Points(), "packing changes nothing")
		require.LessOrEqual(t, len(packed), samples.MaxBytes)
		requireTrue(t, packed.Series().Points(), n, calls)
		require.Equal(t, packed, packed.Series().Pack())
		points := packed.Series().Points()
		require.Equal(t, points, samples.Of(points).Pack().Series().Points(), "of its own samples")

		shuffled := slices.Clone(all) // as several legs have them
		r.Shuffle(len(all), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		cut := r.IntN(len(all) + 1)
		a, b := added(shuffled[:cut], r.IntN(4)).Pack(), added(shuffled[cut:], packed.Grain()).Pack()
		together := a.Plus(b)
		require.LessOrEqual(t, len(together), samples.MaxBytes)
		requireTrue(t, together.Series().Points(), n, calls)
		require.Equal(t, together, b.Plus(a))
		require.Equal(t, together, together.Plus(nil))
	}
}

// M9: a long life has samples all over it, also after a pause that is longer than all the rest.
func TestSeries_ThinsOutEvenly(t *testing.T) {
	t.Parallel()
	var s samples.Series
	at := start
	for range 30_000 {
		at = at.Add(time.Second)
		s.Add(at.Add(-3*time.Second), at, samples.Counts{samples.OK: 100}, "5203 10:3 12:97")
	}
	all := s.Points()
	require.Greater(t, len(all), samples.Most/3)
	for i := 2; i < len(all)-1; i++ {
		a, b := all[i-1], all[i]
		require.InDelta(t, 100, float64(b.N[samples.OK]-a.N[samples.OK])/b.At.Sub(a.At).Seconds(), 1)
		require.Equal(t, all[1].At.Sub(all[0].At).Truncate(time.Hour), b.At.Sub(a.At).Truncate(time.Hour))
		require.InDelta(t, 5e6, b.Calls.Percentile(50).Nanoseconds(), 1e6)
		require.Equal(t, 5203*time.Microsecond, b.Calls.Longest())
	}
	require.Less(t, base64.StdEncoding.EncodedLen(len(s.Pack())), 7<<10)
	require.Less(t, base64.StdEncoding.EncodedLen(samples.MaxBytes), 7<<10)

	var paused samples.Series
	add := func(at time.Time) { paused.Add(at, at.Add(time.Second), samples.Counts{samples.OK: 1000}, "") }
	for i := range 20 {
		add(start.Add(time.Duration(i) * time.Second))
	}
	add(start.Add(24 * 365 * time.Hour))
	all = paused.Points()
	require.Greater(t, len(all), 60, "the pause does not make the rest coarse")
	last := all[len(all)-1]
	require.EqualValues(t, 21_000, last.N[samples.OK])
	require.Equal(t, start.Add(24*365*time.Hour+time.Second), last.At)
	idle := all[len(all)-6]
	require.EqualValues(t, 20_000, idle.N[samples.OK], "%v", all[len(all)-7:])
	require.Less(t, start.Add(24*365*time.Hour).Sub(idle.At), time.Second, "one at the end of the pause")
}

func longest(p samples.Point) time.Duration {
	if p.Calls == nil {
		return 0
	}
	return p.Calls.Longest()
}

// Items are spread over the time that their batch took; events are at its end.
func TestSeries_Add(t *testing.T) {
	t.Parallel()
	var s samples.Series
	begin := time.Unix(1_800_000_000, 0).UTC()
	require.Nil(t, s.Points())
	require.Nil(t, s.Pack())
	s.Add(begin, begin.Add(time.Second), samples.Counts{samples.OK: 8, samples.Retries: 1}, "2000 10:4")
	var got []string
	for _, one := range s.Points() {
		got = append(got, fmt.Sprintf("%v %d %d %v", one.At.Sub(begin), one.N[samples.OK], one.N[samples.Retries], longest(one)))
	}
	require.Equal(t, []string{"0s 0 0 0s", "250ms 2 0 2ms", "500ms 4 0 2ms", "750ms 6 0 2ms", "1s 8 1 2ms"}, got)

	s.Add(begin, begin.Add(2*time.Second), samples.Counts{samples.OK: -5, samples.Retries: -1}, "")
	all := s.Points()
	require.EqualValues(t, 3, all[len(all)-1].N[samples.OK])
	require.Zero(t, all[len(all)-1].N[samples.Retries])
	require.EqualValues(t, 2, all[1].N[samples.OK], "what was added last is taken back")
}

// What earlier runs have done at times that are not known is there at the beginning.
func TestSeries_Settle(t *testing.T) {
	t.Parallel()
	var s samples.Series
	s.Settle(start, samples.Counts{samples.OK: 70, samples.Failed: 3})
	require.Equal(t, []samples.Point{{At: start, N: samples.Counts{samples.OK: 70, samples.Failed: 3}}}, s.Points())
	s.Add(start, start.Add(time.Second), samples.Counts{samples.OK: 10}, "")
	packed := s.Pack()
	require.Equal(t, samples.Counts{samples.OK: 80, samples.Failed: 3}, packed.Series().Sum())
	require.EqualValues(t, 70, packed.Series().Points()[0].N[samples.OK])

	require.Equal(t, samples.Counts{samples.OK: 75}, packed.Settled(start, samples.Counts{samples.OK: 75}).Series().Sum())
	require.EqualValues(t, 60, packed.Settled(start, samples.Counts{samples.OK: 60}).Series().Points()[0].N[samples.OK])
	require.EqualValues(t, 90, packed.Settled(start, samples.Counts{samples.OK: 100}).Series().Points()[0].N[samples.OK])
	require.Equal(t, packed, packed.Settled(start, samples.Counts{samples.OK: 80, samples.Failed: 3}))
}

// What comes from elsewhere does no harm.
func TestPacked_OfAnything(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	good := added(drawn(r), 0).Pack()
	for range 500 {
		bad := slices.Clone(good[:r.IntN(len(good)+1)])
		for range r.IntN(5) {
			if len(bad) > 0 {
				bad[r.IntN(len(bad))] = byte(r.Uint32())
			}
		}
		_ = bad.Plus(good).Series().Points()
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
