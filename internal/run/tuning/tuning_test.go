package tuning

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seeds are those of the simulations: STINT_SEED, or the given number of fixed ones.
func seeds(t *testing.T, n uint64) []uint64 {
	t.Helper()
	if text := os.Getenv("STINT_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		return []uint64{seed}
	}
	if testing.Short() {
		n = 1
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i) + 1
	}
	return all
}

// scenario is a service, and how many items are run through it.
type scenario struct {
	name    string
	items   int
	slots   int
	pause   float64 // after a slow-down request
	service func(*rand.Rand) service
	// most is how many times as long as with the best fixed number it may take, in the median of the seeds.
	most float64
	// from and to is where the number must be at the end; 0: anywhere.
	from, to int
}

func servers(n int) func(float64) int { return func(float64) int { return n } }

var scenarios = []scenario{
	{name: "wait", items: 200_000, slots: 4, most: 1.2, from: 700, to: 1000, service: func(*rand.Rand) service { return waits{takes: always(0.05)} }},
	{name: "wait, one slot", items: 50_000, slots: 1, most: 1.2, from: 700, to: 1000, service: func(*rand.Rand) service { return waits{takes: always(0.1)} }},
	{name: "exponential wait", items: 200_000, slots: 4, most: 1.2, service: func(r *rand.Rand) service { return waits{takes: exponential(r, 0.05)} }},
	{name: "heavy-tailed wait", items: 200_000, slots: 4, most: 1.2, service: func(r *rand.Rand) service { return waits{takes: heavy(r, 0.05)} }},
	{name: "bimodal wait", items: 200_000, slots: 4, most: 1.2, service: func(r *rand.Rand) service { return waits{takes: bimodal(r, 0.01, 0.5, 0.1)} }},
	{name: "wait gets longer", items: 400_000, slots: 4, most: 1.2, service: func(r *rand.Rand) service {
		return waits{takes: changing(1+4*r.Float64(), always(0.05), always(0.2))}
	}},
	{name: "wait gets shorter", items: 400_000, slots: 4, most: 1.2, service: func(r *rand.Rand) service {
		return waits{takes: changing(1+4*r.Float64(), always(0.2), always(0.02))}
	}},
	{name: "refuses 160", items: 100_000, slots: 4, pause: 0.1, most: 1.2, from: 15, to: 50, service: func(*rand.Rand) service { return &refuses{waits: waits{takes: always(0.05)}, most: 160} }},
	{name: "refuses 30, exponential", items: 40_000, slots: 4, pause: 0.1, most: 1.2, from: 2, to: 10, service: func(r *rand.Rand) service { return &refuses{waits: waits{takes: exponential(r, 0.05)}, most: 30} }},
	{name: "refuses 700, one slot, heavy-tailed, long pauses", items: 400_000, slots: 1, pause: 1, most: 1.2, from: 250, to: 800, service: func(r *rand.Rand) service { return &refuses{waits: waits{takes: heavy(r, 0.1)}, most: 700} }},
	{name: "queues at 50 to 200", items: 60_000, slots: 4, most: 1.2, service: func(r *rand.Rand) service {
		return &queues{servers: servers(50 + r.IntN(150)), takes: always(0.05)}
	}},
	{name: "queues at 10, exponential", items: 10_000, slots: 2, most: 1.2, from: 3, to: 30, service: func(r *rand.Rand) service { return &queues{servers: servers(10), takes: exponential(r, 0.05)} }},
	{name: "queues at 40, bimodal", items: 20_000, slots: 4, most: 1.2, service: func(r *rand.Rand) service { return &queues{servers: servers(40), takes: bimodal(r, 0.01, 0.5, 0.1)} }},
	{name: "queue loses servers", items: 60_000, slots: 4, most: 1.2, service: func(r *rand.Rand) service {
		return &queues{servers: changing(15+10*r.Float64(), servers(100), servers(25)), takes: exponential(r, 0.05)}
	}},
	{name: "queue gets servers", items: 150_000, slots: 4, most: 1.2, service: func(r *rand.Rand) service {
		return &queues{servers: changing(15+10*r.Float64(), servers(25), servers(200)), takes: exponential(r, 0.05)}
	}},
	{name: "expires in the queue", items: 60_000, slots: 4, most: 1.2, service: func(r *rand.Rand) service {
		return &queues{servers: servers(100), takes: exponential(r, 0.05), limit: 1}
	}},
	{name: "two processors", items: 20_000, slots: 4, most: 1.05, from: 1, to: 2, service: func(*rand.Rand) service { return &shares{processors: 2, takes: always(0.005)} }},
	{name: "two processors, two slots, exponential", items: 20_000, slots: 2, most: 1.05, service: func(r *rand.Rand) service { return &shares{processors: 2, takes: exponential(r, 0.005)} }},
	{name: "eight processors, two slots", items: 20_000, slots: 2, most: 1.1, from: 3, to: 12, service: func(r *rand.Rand) service { return &shares{processors: 8, takes: exponential(r, 0.005)} }},
}

// someFixed are the numbers that the tuner is compared with.
var someFixed = []int{1, 2, 3, 5, 7, 10, 20, 25, 40, 50, 100, 175, 200, 500, 700, 1000}

// worst is how many times as long as with the best fixed number it may take with any seed.
const worst = 1.35

// B9: whatever the service is like, the number is such that the items take hardly longer than with the best fixed one.
func TestTuner_B9_AgainstFixed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a minute of simulation in one goroutine")
	}
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			var ratios []float64
			for _, seed := range seeds(t, 3) {
				best, bestAt := sc.best(seed)
				s := sc.simulate(seed)
				s.tuner, s.until = New(sc.slots, s.clock), 10*best
				took := s.run(sc.items)
				told := fmt.Sprintf("STINT_SEED=%d: %.2f s, and %.2f s with %d: %.2f times as long; limits %v", seed, took, best, bestAt, took/best, s.limits)
				t.Log(told)
				ratios = append(ratios, took/best)
				require.LessOrEqual(t, took, worst*best, told)
				if sc.to > 0 {
					require.GreaterOrEqual(t, s.limit(), sc.from, told)
					require.LessOrEqual(t, s.limit(), sc.to, told)
				}
			}
			slices.Sort(ratios)
			require.LessOrEqual(t, ratios[len(ratios)/2], sc.most, "the median")
		})
	}
}

func (sc scenario) simulate(seed uint64) *simulation {
	return &simulation{slots: sc.slots, pause: sc.pause, service: sc.service(rand.New(rand.NewPCG(seed, 1)))}
}

// best is how long the items take with the best fixed number, and which that is.
func (sc scenario) best(seed uint64) (took float64, fixed int) {
	for _, n := range someFixed {
		s := sc.simulate(seed)
		s.fixed, s.until = n, 1e9
		if fixed > 0 {
			s.until = took
		}
		if now := s.run(sc.items); fixed == 0 || now < took {
			took, fixed = now, n
		}
	}
	return took, fixed
}

// B9: of a job of a second, the way up to 500 calls at once in a slot is no more than half.
func TestTuner_B9_ClimbsQuickly(t *testing.T) {
	t.Parallel()
	s := &simulation{slots: 4, service: waits{takes: always(0.05)}, until: 100}
	s.tuner = New(4, s.clock)
	took := s.run(20_000)
	require.Equal(t, []int{4, 16, 64, 256, 1000}, s.limits[:5])
	require.LessOrEqual(t, took, 0.55, "500 at once take 0.5 s")
}

// B9: a service that refuses does not make the number oscillate down to 1.
func TestTuner_B9_NoOscillation(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 5) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := &simulation{slots: 1, pause: 0.2, service: &refuses{waits: waits{takes: exponential(r, 0.05)}, most: 100}, until: 1000}
		s.tuner = New(1, s.clock)
		s.run(100_000)
		least := MaxCalls
		for _, n := range s.limits[10:] {
			least = min(least, n)
		}
		require.GreaterOrEqual(t, least, 25, "STINT_SEED=%d: %v", seed, s.limits)
	}
}

// manual drives a tuner call by call.
type manual struct {
	*Tuner
	now time.Time
}

func drive(slots int) *manual {
	m := &manual{now: time.Unix(1_700_000_000, 0)}
	m.Tuner = New(slots, func() time.Time { return m.now })
	m.Occupied(slots)
	return m
}

// rounds makes rounds of so many calls at once, each of which takes as long.
func (m *manual) rounds(n, calls int, took time.Duration) {
	for range n {
		for range calls {
			m.Began()
		}
		m.now = m.now.Add(took)
		for range calls {
			m.Ended(Call{Took: took, Items: 1})
		}
	}
}

// B9: a number that is not in use shows nothing, and does not grow.
func TestTuner_B9_GrowsOnlyIfInUse(t *testing.T) {
	t.Parallel()
	m := drive(2)
	m.rounds(3, 2, 10*time.Millisecond)
	limit := m.Limit()
	require.Greater(t, limit, 1)
	m.rounds(1000, limit, 10*time.Millisecond) // half of the places
	require.Equal(t, limit, m.Limit())
	for range 2 * limit {
		m.Began() // all of them, for a moment
	}
	for range limit {
		m.Ended(Call{Took: time.Nanosecond, Items: 1})
	}
	m.rounds(1000, 1, 10*time.Millisecond)
	require.Equal(t, limit, m.Limit())
	for range limit {
		m.Ended(Call{Took: 10 * time.Second, Items: 1})
	}
	m.Occupied(-1) // now they are all there are
	m.rounds(3, limit, 10*time.Millisecond)
	require.Greater(t, m.Limit(), limit)
}

// B9: requests of calls that were in hand at the same time halve the number once, and so do those of calls that begin
// while these are still in hand.
func TestTuner_B9_HalvesOnceARoundTrip(t *testing.T) {
	t.Parallel()
	m := drive(1)
	for m.Limit() < 256 {
		m.rounds(1, m.Limit(), 50*time.Millisecond)
	}
	refused := Call{Took: 5 * time.Millisecond, SlowDown: true}
	for range 40 {
		m.Began()
	}
	m.now = m.now.Add(refused.Took)
	require.True(t, m.Ended(refused))
	require.Equal(t, 128, m.Limit())
	for range 30 {
		require.False(t, m.Ended(refused))
	}
	m.now = m.now.Add(30 * time.Millisecond)
	require.False(t, m.Ended(refused), "it began while the others were in hand")
	require.Equal(t, 128, m.Limit())
	m.now = m.now.Add(100 * time.Millisecond)
	require.True(t, m.Ended(refused))
	require.Equal(t, 64, m.Limit())
	for range 20 {
		m.now = m.now.Add(time.Second)
		m.Began()
		m.Ended(refused)
	}
	require.Equal(t, 1, m.Limit(), "never less")
}

// B9: the number has bounds, for a slot and for all of them.
func TestTuner_B9_Bounds(t *testing.T) {
	t.Parallel()
	for slots, most := range map[int]int{1: 1000, 4: 1000, 10: 1000, 40: 250, 1000: 10, 20_000: 1} {
		require.Equal(t, most, New(slots, time.Now).Most(), slots)
	}
	m := drive(40)
	for range 30 {
		m.rounds(1, 40*m.Limit(), 10*time.Millisecond)
		require.LessOrEqual(t, m.Limit(), 250)
		require.LessOrEqual(t, m.Expected(), 250)
	}
	require.GreaterOrEqual(t, m.Limit(), 200)
}

// B9: while the number climbs there should be items for what it climbs to; then for what it is.
func TestTuner_B9_Expected(t *testing.T) {
	t.Parallel()
	m := drive(2)
	require.Equal(t, foreseen, m.Expected())
	m.rounds(2, 2, 10*time.Millisecond)
	require.Equal(t, foreseen, m.Expected())
	for range 20 {
		m.rounds(1, 2*m.Limit(), time.Duration(m.Limit())*10*time.Millisecond) // four times the calls take four times as long
	}
	require.LessOrEqual(t, m.Limit(), 4)
	require.Equal(t, m.Limit(), m.Expected())
}

// B9: a handler that fails for every item is no reason to make one call at a time, but more failures than before are no
// throughput.
func TestTuner_B9_Failures(t *testing.T) {
	t.Parallel()
	m := drive(1)
	fail := func(rounds int, share int) {
		for range rounds {
			n := m.Limit()
			for range n {
				m.Began()
			}
			m.now = m.now.Add(50 * time.Millisecond)
			for i := range n {
				m.Ended(Call{Took: 50 * time.Millisecond, Items: 1, Failed: (99 - i*37%100 + share) / 100})
			}
		}
	}
	fail(20, 100)
	require.GreaterOrEqual(t, m.Limit(), 64)
	m = drive(1)
	for m.Limit() < 64 {
		fail(1, 0)
	}
	for m.Limit() == 64 {
		fail(1, 0)
	}
	require.Equal(t, 256, m.Limit())
	fail(6, 90)
	require.LessOrEqual(t, m.Limit(), 80, "of four times the calls one in ten succeeds")
}
