package tuning

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seed is that of a simulation, printed if it fails.
func seed(t *testing.T, n uint64) *rand.Rand {
	t.Helper()
	if text := os.Getenv("STINT_SEED"); text != "" {
		var err error
		n, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("STINT_SEED=%d", n)
	return rand.New(rand.NewPCG(n, 1))
}

// scenario is a service and how many items are run through it.
type scenario struct {
	name    string
	items   int
	slots   int
	pause   float64
	service func(*rand.Rand) service
	// most is how many times as long as with the best fixed number it may take.
	most float64
}

func fixedServers(n int) func(float64) int { return func(float64) int { return n } }

var scenarios = []scenario{
	{name: "short wait", items: 20_000, slots: 4, most: 1.6, service: func(*rand.Rand) service { return waits{takes: always(0.05)} }},
	{name: "long wait", items: 200_000, slots: 4, most: 1.3, service: func(*rand.Rand) service { return waits{takes: always(0.05)} }},
	{name: "long wait, one slot", items: 50_000, slots: 1, most: 1.3, service: func(*rand.Rand) service { return waits{takes: always(0.1)} }},
	{name: "exponential wait", items: 200_000, slots: 4, most: 1.3, service: func(r *rand.Rand) service { return waits{takes: exponential(r, 0.05)} }},
	{name: "heavy-tailed wait", items: 200_000, slots: 4, most: 1.3, service: func(r *rand.Rand) service { return waits{takes: heavy(r, 0.05)} }},
	{name: "bimodal wait", items: 200_000, slots: 4, most: 1.3, service: func(r *rand.Rand) service { return waits{takes: bimodal(r, 0.01, 0.5, 0.1)} }},
	{name: "wait gets longer", items: 400_000, slots: 4, most: 1.3, service: func(*rand.Rand) service { return waits{takes: from(2, always(0.05), always(0.2))} }},
	{name: "wait gets shorter", items: 400_000, slots: 4, most: 1.3, service: func(*rand.Rand) service { return waits{takes: from(4, always(0.2), always(0.02))} }},
	{name: "refuses 160", items: 100_000, slots: 4, pause: 0.1, most: 1.3, service: func(*rand.Rand) service { return &refuses{waits: waits{takes: always(0.05)}, most: 160} }},
	{name: "refuses 30, noisy", items: 40_000, slots: 4, pause: 0.1, most: 1.3, service: func(r *rand.Rand) service { return &refuses{waits: waits{takes: exponential(r, 0.05)}, most: 30} }},
	{name: "refuses 1,000, one slot", items: 400_000, slots: 1, pause: 1, most: 1.3, service: func(r *rand.Rand) service { return &refuses{waits: waits{takes: heavy(r, 0.1)}, most: 700} }},
	{name: "queues at 100", items: 60_000, slots: 4, most: 1.3, service: func(*rand.Rand) service { return &queues{servers: fixedServers(100), takes: always(0.05)} }},
	{name: "queues at 10, noisy", items: 10_000, slots: 2, most: 1.3, service: func(r *rand.Rand) service { return &queues{servers: fixedServers(10), takes: exponential(r, 0.05)} }},
	{name: "queues at 40, bimodal", items: 20_000, slots: 4, most: 1.3, service: func(r *rand.Rand) service {
		return &queues{servers: fixedServers(40), takes: bimodal(r, 0.01, 0.5, 0.1)}
	}},
	{name: "loses servers", items: 60_000, slots: 4, most: 1.3, service: func(r *rand.Rand) service {
		return &queues{servers: func(now float64) int {
			if now < 20 {
				return 100
			}
			return 25
		}, takes: exponential(r, 0.05)}
	}},
	{name: "gets servers", items: 60_000, slots: 4, most: 1.3, service: func(r *rand.Rand) service {
		return &queues{servers: func(now float64) int {
			if now < 20 {
				return 25
			}
			return 200
		}, takes: exponential(r, 0.05)}
	}},
	{name: "expires in the queue", items: 60_000, slots: 4, most: 1.3, service: func(r *rand.Rand) service {
		return &queues{servers: fixedServers(100), takes: exponential(r, 0.05), limit: 1}
	}},
	{name: "two processors", items: 20_000, slots: 4, most: 1.05, service: func(*rand.Rand) service { return &shares{processors: 2, takes: always(0.005)} }},
	{name: "two processors, two slots, noisy", items: 20_000, slots: 2, most: 1.05, service: func(r *rand.Rand) service { return &shares{processors: 2, takes: exponential(r, 0.005)} }},
	{name: "eight processors, two slots", items: 20_000, slots: 2, most: 1.1, service: func(r *rand.Rand) service { return &shares{processors: 8, takes: exponential(r, 0.005)} }},
}

func TestX(t *testing.T) {
	for _, sc := range scenarios {
		r := seed(t, 1)
		best, bestAt := 1e18, 0
		for _, fixed := range []int{1, 2, 3, 5, 10, 20, 25, 40, 50, 100, 200, 500, 1000} {
			s := &simulation{slots: sc.slots, pause: sc.pause, service: sc.service(r), fixed: fixed, until: best}
			if took := s.run(min(sc.items, sc.items)); took < best {
				best, bestAt = took, fixed
			}
		}
		s := &simulation{slots: sc.slots, pause: sc.pause, service: sc.service(r), until: 10 * best}
		s.tuner = New(sc.slots, s.clock)
		took := s.run(sc.items)
		show := s.limits
		if len(show) > 60 {
			show = show[:60]
		}
		fmt.Printf("%-35s best %7.2f at %4d, auto %7.2f, ratio %.2f (%.2f)  %d limits %v\n", sc.name, best, bestAt, took, took/best, sc.most, len(s.limits), show)
	}
	_ = time.Now
}
