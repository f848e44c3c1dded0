package starter_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/procs"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// chaosSeeds, as an environment variable, has the long tests run, so many times each: see `make chaos`.
const chaosSeeds = "STINT_CHAOS_SEEDS"

// chaotic runs a long test as often as requested, each time with another seed. In an
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
	random     *rand.Rand
	items      int
	failing    int      // of them
	results    string   // of the items
	handler    []string // flags of the workers
	flags      []string // more of the job
	batch      int      // items
	windows    int      // how many sizes of the window, from one that occupies all slots on, are tried
	everything string   // marks all processes but the workers' children
	mark       string   // of the workers' children
	server     *process
	links      []*link // from the workers to the server
	workers    *supervisor
	draining   []*process    // workers that have been asked to end
	store      *faultyStore  // of its input and output; nil: a directory
	disk       *smallDisk    // of its output; nil: a large one
	api        *mortalAPI    // which its workers call; nil: none
	lasts      time.Duration // an outage of these
	repeats    int           // batches that the faults so far may have had run twice
	behind     int64         // items that were done behind one that a stop cut off
	together   time.Time     // the latest end of a fault that had kept a worker and the server apart
	slow       *slowness     // of the server
}

const (
	chaosWorkers = 3
	chaosSlots   = 2
	chaosBatch   = 500
	chaosExpiry  = 2 * time.Second
	// inHand is how many batches a worker may have in hand: a slot one that makes calls, and another
	// whose part is being written. All of them have allInHand.
	inHand    = 2 * chaosSlots
	allInHand = chaosWorkers * inHand
)

// fault is something that happens to a job. It may have so many batches run twice.
type fault struct {
	name    string
	repeats int
	happens func(c *chaos)
}

const stopped = "the job is stopped and resumed"

var faults = []fault{
	{"a worker is killed", inHand, (*chaos).killWorker},
	{"a worker is frozen", inHand, (*chaos).freezeWorker},
	{"workers are cut off from the server", allInHand, (*chaos).cutWorkers},
	{"packets between workers and server get lost", allInHand, (*chaos).stallWorkers},
	{"the server is killed", allInHand, (*chaos).killServer},
	{"a worker is drained", 0, (*chaos).drainWorker},
	{"a guard is killed", 0, (*chaos).killGuard},
	{"a child is killed", 1, (*chaos).killChild},
	{stopped, 0, (*chaos).stopAndResume},
	{"the window is changed", 0, (*chaos).setWindow},
}

// meanwhile has something happen in the middle of an outage.
func (c *chaos) meanwhile(other func()) {
	time.Sleep(c.lasts / 2) // this is the fault, not a wait for something
	other()
	time.Sleep(c.lasts / 2) // and so is this
}

// anyWorker is one of the workers, which serves.
func (c *chaos) anyWorker() *process { return c.workers.serving(c.random.IntN(chaosWorkers)) }

func (c *chaos) killWorker() { c.anyWorker().signal(syscall.SIGKILL) }

// killWorkers kills all workers.
func (c *chaos) killWorkers() {
	for place := range chaosWorkers {
		c.workers.serving(place).signal(syscall.SIGKILL)
	}
}

// freezeWorker has a worker stand still for longer than its expiry, and then continue.
func (c *chaos) freezeWorker() {
	defer c.apart()
	w := c.anyWorker()
	w.signal(syscall.SIGSTOP)
	time.Sleep(c.tooLong()) // this is the fault, not a wait for something
	w.signal(syscall.SIGCONT)
}

// apart notes the end of a fault that has kept a worker and the server apart.
func (c *chaos) apart() { c.together = time.Now() }

// tooLong is a time in which what is in hand expires.
func (c *chaos) tooLong() time.Duration {
	return chaosExpiry + time.Duration(c.random.Int64N(int64(time.Second)))
}

// anyLink is one of the links to the server, on which any number of the workers may be.
func (c *chaos) anyLink() *link { return c.links[c.random.IntN(len(c.links))] }

func (c *chaos) cutWorkers() {
	defer c.apart()
	c.anyLink().cutFor(c.t, c.tooLong())
}

func (c *chaos) stallWorkers() {
	defer c.apart()
	c.anyLink().stallFor(c.tooLong())
}

// killServer has the server start again with the same state at the same address.
func (c *chaos) killServer() {
	defer c.apart()
	c.server.kill()
	c.server = c.again(c.server)
}

func (c *chaos) drainWorker() {
	w := c.anyWorker()
	w.signal(syscall.SIGTERM)
	c.draining = append(c.draining, w)
}

func (c *chaos) killGuard() {
	eventually(c.t, "a guard", func() bool {
		w := c.anyWorker().cmd.Process.Pid // another one each time: one that is being drained ends, and its guard with it
		return slices.ContainsFunc(procs.All(), func(p procs.Process) bool {
			_, guards := procs.Variable(p.PID, "STINT_GUARD")
			return p.Parent == w && guards && syscall.Kill(p.PID, syscall.SIGKILL) == nil
		})
	})
}

// killChild kills a child, unless all items have been run: then there is none any more.
func (c *chaos) killChild() {
	eventually(c.t, "a child", func() bool {
		children := marked(c.t, c.mark)
		if len(children) == 0 {
			return c.allRun()
		}
		return syscall.Kill(children[c.random.IntN(len(children))], syscall.SIGKILL) == nil
	})
}

// allRun reports whether each item has been run, as far as the witness says.
func (c *chaos) allRun() bool {
	if c.executions() < c.items {
		return false
	}
	run := map[string]bool{}
	for line := range strings.Lines(c.read("witness")) {
		run[line] = true
	}
	return len(run) >= c.items
}

// setWindow changes the job's window, unless the job has just been completed.
func (c *chaos) setWindow() {
	set := c.spawn("set", "nightly", fmt.Sprintf("window=%d", chaosWorkers*chaosSlots+c.random.IntN(c.windows)))
	set.await()
	if !strings.Contains(set.stderr.String(), "it is completed") {
		set.exits(starter.ExitOK)
		return
	}
	require.True(c.t, c.allRun(), set.stderr.String())
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
	t.Helper()
	c := newChaos(t, n)
	c.begin(c.write("in.txt", numbers(n)), "out.txt")
	c.rage(c.choose(faults, number))
	c.end(func() string { return c.read("out.txt") })
}

// newChaos starts a server for a job over n items.
func newChaos(t *testing.T, n int) *chaos {
	t.Helper()
	c := &chaos{box: setup(t), random: seed(t), items: n, results: numbers(n), batch: chaosBatch, windows: 60}
	c.handler = []string{"--exec", c.witness("sleep 0.8; ")}
	c.everything = c.box.mark()
	c.env = append(c.env, c.everything)
	c.server = c.cluster()
	_, address, _ := strings.Cut(c.env[len(c.env)-1], "TEMPORAL_ADDRESS=")
	for range chaosWorkers {
		c.links = append(c.links, newLink(t, address))
	}
	c.slow = watchSlowness(t, c.dial(address))
	return c
}

// begin starts the workers, with the words of enter before their command lines, and the job.
func (c *chaos) begin(input, output string, enter ...string) {
	c.t.Helper()
	c.beginWorkers(enter...)
	c.start(output, input)
}

// start starts the job, whose source the words say.
func (c *chaos) start(output string, source ...string) {
	c.t.Helper()
	start := append([]string{"start", "--pool", "p", "--name", "nightly", "-o", output, "--report", c.path("report.json"),
		"--batch-items", itoa(c.batch), "--expiry", chaosExpiry.String(), "--backoff", "100ms"}, source...)
	c.spawn(append(start, c.flags...)...).exits(starter.ExitOK)
}

// beginWorkers starts the workers.
func (c *chaos) beginWorkers(enter ...string) {
	c.t.Helper()
	c.mark = c.box.mark()
	worker := stintWorker(c.t, append(c.handler, "--slots", itoa(chaosSlots), "--env", c.mark)...)
	var started atomic.Int64
	c.workers = c.supervise(chaosWorkers, func() *exec.Cmd {
		cmd := worker()
		if len(enter) > 0 {
			cmd = exec.Command(enter[0], append(enter[1:], cmd.Args...)...)
		}
		link := c.links[started.Add(1)%chaosWorkers]
		cmd.Env = append(cmd.Env, "TEMPORAL_ADDRESS="+link.address)
		return cmd
	})
}

// end waits for the job's end and requires that the faults do not show in its outcome.
func (c *chaos) end(output func() string) {
	c.t.Helper()
	end := starter.ExitOK
	if c.failing > 0 {
		end = starter.ExitSomeFailed
	}
	c.spawn("watch", "nightly").exits(end)
	requireSame(c.t, c.results, output())
	c.requireUnharmed()
	c.leave()
}

// leave ends the workers and the server, and requires that nothing is left of them.
func (c *chaos) leave() {
	c.t.Helper()
	for _, w := range c.draining {
		w.await() // a second signal would end it at once
	}
	for place := range chaosWorkers {
		c.workers.serving(place)
	}
	c.workers.drain()
	c.server.signal(syscall.SIGTERM)
	c.server.exits(starter.ExitOK)
	requireGone(c.t, c.mark, patience)
	requireGone(c.t, c.everything, patience)
}

// choose returns so many faults in a random order, each of them about equally often.
func (c *chaos) choose(from []fault, number int) []fault {
	order := c.random.Perm(len(from))
	chosen := make([]fault, number)
	for i := range chosen {
		chosen[i] = from[order[i%len(order)]]
	}
	c.random.Shuffle(number, func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	return chosen
}

// rage makes faults happen, each at a random moment of the job's progress.
func (c *chaos) rage(faults []fault) {
	c.t.Helper()
	moments := make([]int, len(faults))
	for i := range moments {
		moments[i] = c.random.IntN(c.items * 9 / 10)
	}
	slices.Sort(moments)
	for i, moment := range moments {
		c.happens(moment, faults[i])
	}
}

// happens makes a fault happen at so many executions.
func (c *chaos) happens(moment int, f fault) {
	c.t.Helper()
	defer c.tellIfStuck()
	eventually(c.t, "the moment of a fault", func() bool { return c.executions() >= moment })
	began := time.Now()
	c.t.Logf("at %d executions: %s", c.executions(), f.name)
	f.happens(c)
	c.t.Logf("%v later, at %d executions: it is over", time.Since(began).Round(time.Millisecond), c.executions())
	c.repeats += f.repeats
}

// tellIfStuck logs what is known of the job and its workers if the test has failed: nothing of it is left then.
func (c *chaos) tellIfStuck() {
	c.t.Helper()
	if !c.t.Failed() {
		return
	}
	for _, words := range [][]string{{"status", "nightly"}, {"status", "nightly", "--json"}, {"workers"}} {
		told := c.spawn(words...)
		told.await()
		c.t.Logf("stint %s\n%s%s", strings.Join(words, " "), told.stdout.String(), told.stderr.String())
	}
}

// requireUnharmed requires that the faults do not show in the job's report and work.
func (c *chaos) requireUnharmed() {
	c.t.Helper()
	r := c.report("report.json")
	require.Equal(c.t, job.Completed, r.State)
	require.EqualValues(c.t, c.items, r.Planned)
	require.EqualValues(c.t, c.items-c.failing, r.OK)
	require.EqualValues(c.t, c.failing, r.Failed)
	repeats := c.box.repeats(c.items)
	c.t.Logf("%d items run again, at most %d; %d expiries, %d crashes, %v", repeats, c.repeats*c.batch, r.Expiries, r.Crashes, r.Ended.Sub(r.Started))
	require.LessOrEqual(c.t, repeats, c.repeats*c.batch, "what was in hand when a fault came, and nothing else, is run again")
}
