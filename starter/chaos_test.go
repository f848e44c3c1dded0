package starter_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// chaosSeeds, as an environment variable, has the long tests run, so many times each: see `make chaos`.
const chaosSeeds = "STINT_CHAOS_SEEDS"

// chaotic runs what takes long, as often as is wanted, each time with a seed of its own. In an
// ordinary run of the tests it is skipped.
func chaotic(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	text := os.Getenv(chaosSeeds)
	if text == "" {
		t.Skipf("takes long: set %s to how often, or run make chaos", chaosSeeds)
	}
	rounds, err := strconv.Atoi(text)
	require.NoError(t, err, chaosSeeds)
	for round := range rounds {
		t.Run(fmt.Sprintf("round %d", round+1), func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// chaos is a job that runs while everything around it fails.
type chaos struct {
	*box
	random  *rand.Rand
	items   int
	server  *process
	workers *supervisor
	mark    string // of the workers' children
	repeats int    // batches that the faults so far may have had run twice
}

const (
	chaosWorkers = 3
	chaosSlots   = 2
	chaosBatch   = 500
	chaosExpiry  = 2 * time.Second
	// inHand is how many batches a worker may have in hand: a slot one that makes calls, and another
	// whose part is being written.
	inHand = 2 * chaosSlots
)

// fault is something that happens to a job. It may have so many batches run twice.
type fault struct {
	name    string
	repeats int
	happens func(c *chaos)
}

var faults = []fault{
	{"a worker is killed", inHand, (*chaos).killWorker},
	{"a worker is frozen", inHand, (*chaos).freezeWorker},
	{"the server is killed", chaosWorkers * inHand, (*chaos).killServer},
	{"a worker is drained", 0, (*chaos).drainWorker},
	{"a child is killed", 1, (*chaos).killChild},
	{"the job is stopped and resumed", 0, (*chaos).stopAndResume},
	{"the window is changed", 0, (*chaos).setWindow},
}

// anyWorker is one of the workers, which serves.
func (c *chaos) anyWorker() *process { return c.workers.serving(c.random.IntN(chaosWorkers)) }

func (c *chaos) killWorker() { c.anyWorker().signal(syscall.SIGKILL) }

// freezeWorker has a worker stand still for longer than its expiry, and then go on.
func (c *chaos) freezeWorker() {
	w := c.anyWorker()
	w.signal(syscall.SIGSTOP)
	time.Sleep(chaosExpiry + time.Duration(c.random.Int64N(int64(time.Second)))) // this is the fault, not a wait for something
	w.signal(syscall.SIGCONT)
}

// killServer has the server start again with the same state at the same address.
func (c *chaos) killServer() {
	c.server.kill()
	c.server = c.again(c.server)
}

func (c *chaos) drainWorker() { c.anyWorker().signal(syscall.SIGTERM) }

func (c *chaos) killChild() {
	eventually(c.t, "a child", func() bool {
		children := marked(c.t, c.mark)
		return len(children) > 0 && syscall.Kill(children[c.random.IntN(len(children))], syscall.SIGKILL) == nil
	})
}

func (c *chaos) stopAndResume() {
	stopped := c.spawn("stop", "nightly", "--wait").exits(starter.ExitOK)
	if strings.Contains(stopped.stderr.String(), "nightly: stopped") { // and has not just been completed
		c.spawn("resume", "nightly").exits(starter.ExitOK)
	}
}

func (c *chaos) setWindow() {
	c.spawn("set", "nightly", fmt.Sprintf("window=%d", chaosWorkers*chaosSlots+c.random.IntN(60))).exits(starter.ExitOK)
}

// TestChaos_Short is a short round of TestChaos.
func TestChaos_Short(t *testing.T) {
	t.Parallel()
	withstand(t, 30_000, 6)
}

// TestChaos (G1, G2, G3, K9, S15): whatever fails, and however often, the job's output is that of a run
// in peace: each item once, in order.
func TestChaos(t *testing.T) {
	t.Parallel()
	chaotic(t, func(t *testing.T) { withstand(t, 200_000, 30) })
}

// withstand runs a job over n items while so many random faults happen, each at a random moment of its
// progress.
func withstand(t *testing.T, n, number int) {
	c := &chaos{box: brutal(t), random: seed(t), items: n}
	c.write("in.txt", numbers(n))
	everything := c.box.mark()
	c.env = append(c.env, everything)
	c.server = c.cluster()
	c.mark = c.box.mark()
	c.workers = c.supervise(chaosWorkers, stintWorker(t, "--exec", c.witness("sleep 0.8; "), "--slots", itoa(chaosSlots), "--env", c.mark))
	c.spawn("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--report", "report.json",
		"--batch-items", itoa(chaosBatch), "--expiry", chaosExpiry.String(), "--backoff", "100ms").exits(starter.ExitOK)
	c.rage(number)
	c.spawn("watch", "nightly").exits(starter.ExitOK)
	c.requireUnharmed()
	c.workers.drain()
	c.server.signal(syscall.SIGTERM)
	c.server.exits(starter.ExitOK)
	requireGone(t, c.mark, patience)
	requireGone(t, everything, patience)
}

// rage has the faults happen.
func (c *chaos) rage(number int) {
	c.t.Helper()
	moments := make([]int, number)
	for i := range moments {
		moments[i] = c.random.IntN(c.items * 9 / 10)
	}
	slices.Sort(moments)
	for i, moment := range moments {
		eventually(c.t, "the moment of a fault", func() bool { return c.executions() >= moment })
		f := faults[c.random.IntN(len(faults))]
		c.t.Logf("fault %d, at %d executions: %s", i+1, c.executions(), f.name)
		f.happens(c)
		c.repeats += f.repeats
	}
}

// requireUnharmed requires that the job's outcome does not show what has happened.
func (c *chaos) requireUnharmed() {
	c.t.Helper()
	requireSame(c.t, numbers(c.items), c.read("out.txt"))
	r := c.report("report.json")
	require.Equal(c.t, job.Completed, r.State)
	require.EqualValues(c.t, c.items, r.Planned)
	require.EqualValues(c.t, c.items, r.OK)
	require.Zero(c.t, r.Failed)
	repeats := c.box.repeats(c.items)
	c.t.Logf("%d items run again, at most %d; %d expiries, %d crashes, %v", repeats, c.repeats*chaosBatch, r.Expiries, r.Crashes, r.Ended.Sub(r.Started))
	require.LessOrEqual(c.t, repeats, c.repeats*chaosBatch, "what was in hand when a fault came, and nothing else, is run again")
}
