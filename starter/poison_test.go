package starter_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// TestPoison (K9): items that end the whole worker that has them in hand are found, and no other item
// fails, if workers are started again at once.
func TestPoison(t *testing.T) {
	t.Parallel()
	const n, batch = 50_000, 100
	b := setup(t)
	b.cluster()
	b.coordinator()
	b.poison("poison", n, batch, scattered(seed(t), 3, 0, n))
}

// TestChaos_Poison (K9): wherever the bad items are, and though the coordination dies with each of them.
func TestChaos_Poison(t *testing.T) {
	t.Parallel()
	const n, batch = 50_000, 1000
	for name, bad := range map[string]func(random *rand.Rand) []int64{
		"anywhere": func(random *rand.Rand) []int64 { return scattered(random, 3, 0, n) },
		"all in a batch": func(random *rand.Rand) []int64 {
			start := batch * random.Int64N(n/batch)
			return scattered(random, 3, start, start+batch)
		},
		"next to each other": func(random *rand.Rand) []int64 {
			start := random.Int64N(n - 2)
			return []int64{start, start + 1, start + 2}
		},
		"first and last": func(random *rand.Rand) []int64 { return []int64{0, 1 + random.Int64N(n-2), n - 1} },
		"at the ends of batches": func(random *rand.Rand) []int64 {
			first := batch * (1 + random.Int64N(n/batch-1))
			return []int64{first - 1, first, first + batch - 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			chaotic(t, func(t *testing.T) {
				b := setup(t)
				b.cluster()
				b.poison("poison", n, batch, bad(seed(t)))
			})
		})
	}
}

// TestChaos_PoisonNextDoor (K9): the items of another job of the pool, whose workers die under its hands, too,
// are not affected.
func TestChaos_PoisonNextDoor(t *testing.T) {
	t.Parallel()
	chaotic(t, func(t *testing.T) {
		const n, batch = 100_000, 1000
		b := setup(t)
		b.cluster()
		b.write("good.txt", strings.ReplaceAll(numbers(n), "0\n", "x\n"))
		good := b.spawn("start", "--pool", "p", "--name", "good", "good.txt", "-o", "good.out", "--wait",
			"--window", "3", // so that it takes a while
			// what expires has died: on a busy machine a worker that lives may be silent for a second
			"--batch-items", itoa(batch), "--expiry", "4s", "--attempts", "2", "--backoff", "10ms", "--report", "good.json")
		bad := scattered(seed(t), 5, 0, n/10)
		for i := range bad {
			bad[i] *= 10 // no items of the other job
		}
		b.poison("slow", n, batch, bad, good)
		requireSame(t, quoted(b.read("good.txt")), b.read("good.out"))
		require.Positive(t, b.report("good.json").Retries, "its workers have died, too")
	})
}

// scattered gives so many different numbers from a range, in order.
func scattered(random *rand.Rand, count int, from, to int64) []int64 {
	chosen := map[int64]bool{}
	for len(chosen) < count {
		chosen[from+random.Int64N(to-from)] = true
	}
	return slices.Sorted(maps.Keys(chosen))
}

// poison runs a job of n items, some of which end their worker, beside others, which must end well.
func (b *box) poison(handler string, n, batch int, bad []int64, beside ...*process) {
	const workers, attempts = 3, 2
	t := b.t
	t.Logf("bad items: %v", bad)
	b.write("in.txt", numbers(n))
	values, good := b.without(n, bad)
	s := b.supervise(workers, goWorker(t, handler, strings.Join(values, " ")))
	b.spawn("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--wait", "--batch-items", itoa(batch),
		"--expiry", "1s", "--attempts", itoa(attempts), "--backoff", "10ms", "--report", "report.json").exits(starter.ExitSomeFailed)
	deaths := s.ended(poisoned)
	t.Logf("%d deaths", deaths)
	for _, other := range beside {
		other.exits(starter.ExitOK)
	}
	s.drain()
	requireSame(t, quoted(good), b.read("out.txt"))
	for _, f := range b.requireFailed(bad, job.KindCrash) {
		require.Equal(t, "WorkerDied", f.Error.Type)
	}
	r := b.report("report.json")
	require.EqualValues(t, n, r.Planned)
	require.EqualValues(t, n-len(bad), r.OK)
	require.EqualValues(t, len(bad), r.Failed)
	require.LessOrEqual(t, deaths, len(bad)*isolationCalls(batch, attempts), "deaths")
}
