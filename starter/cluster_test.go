package starter_test

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// worker starts a worker of a pool, which may use this directory if the arguments do not say what, and waits
// until it serves it.
func (b *box) worker(pool string, args ...string) *command {
	b.t.Helper()
	if !slices.Contains(args, "--allow") {
		args = append(args, "--allow", b.dir)
	}
	c := b.start(append([]string{"worker", "--pool", pool}, args...)...)
	c.says("serving pool " + pool)
	return c
}

func TestCluster_StartAndWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	input := records(2000)
	b.write("in.jsonl", input)
	b.worker("upper", "--exec", "tr a-z A-Z")
	c := b.stint("start", "--pool", "upper", "--name", "nightly", "in.jsonl", "-o", "out.jsonl", "--wait").exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), "nightly: completed: 2,000 items ok, 0 failed")
	require.NotContains(t, c.stderr.String(), "no worker serves")
	requireSame(t, upper(t, input), b.read("out.jsonl"))
}

func TestCluster_StartPrintsTheName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", "a\n")
	c := b.stint("start", "--pool", "p", "in.txt", "-o", "out.txt", "--name", "given").exits(starter.ExitOK)
	require.Equal(t, "given\n", c.stdout.String())
	made := map[string]bool{}
	for range 3 { // within a second
		c = b.stint("start", "--pool", "p", "in.txt", "-o", "out2.txt").exits(starter.ExitOK)
		require.Regexp(t, `^job-[0-9]{8}-[0-9]{6}-[a-z2-7]{6}\n$`, c.stdout.String())
		made[c.stdout.String()] = true
	}
	require.Len(t, made, 3)
	c = b.stint("start", "--pool", "p", "in.txt", "-o", "out3.txt", "--name", "third", "--json").exits(starter.ExitOK)
	require.JSONEq(t, `{"job":"third","pool":"p"}`, c.stdout.String())
}

func TestCluster_DuplicateNameIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", "a\n")
	line := []string{"start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt"}
	b.stint(line...).exits(starter.ExitOK)
	b.refused(starter.ExitFailed, line, `"nightly" exists already`, "another name", "--fresh")
	b.worker("p", "--exec", "cat")
	b.stint("watch", "nightly").exits(starter.ExitOK)
	again := b.stint(line...).exits(starter.ExitFailed)
	require.Contains(t, again.stderr.String(), `"nightly" exists already`, "a finished job keeps its name")
	b.write("in.txt", "b\n")
	b.stint(append(line, "--fresh", "--wait")...).exits(starter.ExitOK)
	require.Equal(t, "b\n", b.read("out.txt"))
}

// TestCluster_PoolNobodyServes (W11): every command that looks at the job says so at
// once, and the job continues once a worker comes.
func TestCluster_PoolNobodyServes(t *testing.T) {
	t.Parallel()
	const says = "no worker serves pool lonely"
	b := setup(t)
	b.server()
	b.write("in.txt", "a\n")
	started := b.stint("start", "--pool", "lonely", "--name", "waiting", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	require.Contains(t, started.stderr.String(), says)
	require.Contains(t, started.stderr.String(), "stint worker --pool lonely --allow ROOT --exec COMMAND", "it says what to do")
	status := b.stint("status", "waiting")
	require.Contains(t, status.stdout.String()+status.stderr.String(), says)
	watching := b.start("watch", "waiting")
	watching.says(says)
	waiting := b.start("start", "--pool", "lonely", "--name", "second", "in.txt", "-o", "out2.txt", "--wait")
	waiting.says(says)
	require.Contains(t, b.stint("list").exits(starter.ExitOK).stdout.String(), "running")
	b.stint("start", "--pool", "lonely", "--name", "third", "in.txt", "-o", "out3.txt").exits(starter.ExitOK)
	stopping := b.start("stop", "third", "--wait")
	stopping.says(says)

	b.worker("lonely", "--exec", "tr a-z A-Z")
	watching.exits(starter.ExitOK)
	waiting.exits(starter.ExitOK)
	stopping.exits(starter.ExitOK)
	require.Contains(t, b.stint("status", "waiting").exits(starter.ExitOK).stdout.String(), "completed")

	hooked := b.start("start", "--pool", "lonely", "--name", "hooked", "--init", "nobody/prepare", "in.txt", "-o", "out4.txt", "--wait")
	hooked.says("no worker serves pool nobody")
	require.Contains(t, b.stint("status", "hooked").exits(starter.ExitOK).stdout.String(), "grace 2m0s, expiry 30s, 3 attempts")
	b.stint("stop", "hooked", "--wait").exits(starter.ExitOK)
	hooked.exits(starter.ExitStopped)
	require.Contains(t, hooked.stderr.String(), "'stint resume hooked' continues from here")
	require.Equal(t, "A\n", b.read("out.txt"))
	require.Equal(t, "A\n", b.read("out2.txt"))
}

func TestCluster_ListStatusAndWatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", numbers(100))
	b.worker("p", "--exec", b.gated(), "--slots", "2")
	b.stint("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--batch-items", "10").exits(starter.ExitOK)
	eventually(t, "two calls", func() bool { return b.lines("started") == 2 })
	var listed []jobs.Listed
	b.reads(&listed, "list", "--json")
	require.Len(t, listed, 1)
	require.Equal(t, "going", listed[0].Name)
	require.Equal(t, "p", listed[0].Pool)
	require.Equal(t, job.Running, listed[0].State)
	var r job.Report
	b.reads(&r, "status", "going", "--json")
	require.Equal(t, job.Running, r.State)
	require.EqualValues(t, 100, r.Planned)
	require.Zero(t, r.Done())
	require.Equal(t, 10, r.InFlight+r.Waiting)
	require.Contains(t, b.stint("status", "going").exits(starter.ExitOK).stdout.String(), "running")

	watchers := []*command{b.start("watch", "going"), b.start("watch", "going", "--json")}
	b.open()
	for _, w := range watchers {
		w.exits(starter.ExitOK)
	}
	require.NoError(t, json.Unmarshal([]byte(watchers[1].stdout.String()), &r))
	require.Equal(t, job.Completed, r.State)
	require.EqualValues(t, 100, r.OK)
	b.reads(&r, "status", "going", "--json")
	require.Equal(t, job.Completed, r.State)
	table := b.stint("list").exits(starter.ExitOK).stdout.String()
	require.Regexp(t, `going +p +completed `, table)
	b.stint("watch", "going").exits(starter.ExitOK)
}

// reads runs a command that prints JSON.
func (b *box) reads(into any, args ...string) {
	b.t.Helper()
	c := b.stint(args...).exits(starter.ExitOK)
	require.NoError(b.t, json.Unmarshal([]byte(c.stdout.String()), into), c.stdout.String())
}

func TestCluster_CtrlCEndsTheWatchingOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", "a\n")
	b.worker("p", "--exec", b.gated())
	waiting := b.start("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--wait")
	eventually(t, "the filter", func() bool { return b.lines("started") > 0 })
	waiting.signals <- syscall.SIGINT
	waiting.exits(starter.ExitInterrupted)
	require.Contains(t, waiting.stderr.String(), "stint stop going")
	b.open()
	b.stint("watch", "going").exits(starter.ExitOK)
}

func TestCluster_Results(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", "a\nbad\nb\n")
	b.worker("p", "--exec", "sed /bad/d")
	line := []string{"start", "--pool", "p", "in.txt", "--wait", "--backoff", "1ms"}
	b.stint(append(line, "--name", "to-file", "-o", "out.txt")...).exits(starter.ExitSomeFailed)
	b.stint(append(line, "--name", "to-parts", "-o", "out/")...).exits(starter.ExitSomeFailed)
	for _, name := range []string{"to-file", "to-parts"} {
		require.Equal(t, "a\nb\n", b.stint("results", name).exits(starter.ExitOK).stdout.String())
		require.Equal(t, "a\nb\n", b.stint("results", name, "--follow").exits(starter.ExitOK).stdout.String())
		var f job.Failure
		b.reads(&f, "errors", name, "--records")
		require.EqualValues(t, 1, f.Item)
	}
}

func TestCluster_ResultsFollow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", numbers(100))
	b.worker("p", "--exec", b.gated(), "--slots", "1")
	b.stint("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--batch-items", "2").exits(starter.ExitOK)
	following := b.start("results", "going", "--follow")
	eventually(t, "the filter", func() bool { return b.lines("started") > 0 })
	require.Empty(t, following.stdout.String())
	b.open()
	following.exits(starter.ExitOK)
	requireSame(t, numbers(100), following.stdout.String())
}

// Results and error records of legs that have committed are printed while others run, each once.
func TestCluster_ResultsFollowLegs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", numbers(100))
	b.worker("p", "--exec", b.script("filter", `
while read -r n; do
	case $n in 0000007|0000093) exit 3; esac
	while [ $n -gt 90 -a ! -e $BOX/gate ]; do sleep 0.02; done
	echo $n
done`), "--slots", "1")
	b.stint("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--batch-items", "2", "--attempts", "1").exits(starter.ExitOK)
	results := b.start("results", "going", "--follow")
	failures := b.start("errors", "going", "--follow")
	early, want := results.stdout.String, strings.Replace(numbers(100), "0000007\n", "", 1)
	eventually(t, "the first leg's results", func() bool { return len(early()) > 20 && failures.stdout.String() != "" })
	var r job.Report
	b.reads(&r, "status", "going", "--json")
	require.Equal(t, job.Running, r.State)
	require.True(t, strings.HasPrefix(want, early()), early())
	require.Equal(t, 1, strings.Count(failures.stdout.String(), "\n"))
	b.open()
	results.exits(starter.ExitOK)
	failures.exits(starter.ExitOK)
	requireSame(t, strings.Replace(want, "0000093\n", "", 1), results.stdout.String())
	requireSame(t, b.read("out.txt.errors.jsonl"), failures.stdout.String())
	require.Equal(t, 2, strings.Count(failures.stdout.String(), "\n"))
}

func TestCluster_StopKeepsWhatIsDone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", numbers(100))
	b.worker("p", "--slots", "2", "--exec", b.script("filter", `echo $$ >> $BOX/started
for pass in 1 2 3 4 5; do mkdir $BOX/pass$pass 2> /dev/null && exec cat; done
while [ ! -e $BOX/gate ]; do sleep 0.02; done; exec cat`))
	waiting := b.start("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--batch-items", "10", "--wait", "--report", "report.json")
	eventually(t, "two calls that wait", func() bool { return b.lines("started") == 7 })
	b.stint("stop", "going", "--reason", "enough").exits(starter.ExitOK)
	eventually(t, "the stop", func() bool { // queued batches are taken back along with it
		var listed []jobs.Listed
		b.reads(&listed, "list", "--json")
		return listed[0].State == job.Stopping
	})
	b.open()
	stopped := b.stint("stop", "going", "--wait").exits(starter.ExitOK)
	require.Contains(t, stopped.stderr.String(), "70 items done")
	waiting.exits(starter.ExitStopped)
	require.Contains(t, waiting.stderr.String(), "going: stopped: 70 items ok")
	r := b.report("report.json")
	require.Equal(t, job.Stopped, r.State)
	require.Equal(t, "enough", r.Reason)
	b.requireNoOutput()
	printed := b.stint("results", "going").exits(starter.ExitOK).stdout.String()
	require.True(t, strings.HasPrefix(numbers(100), printed), "what is printed has no gap: %s", printed)
	again := b.stint("stop", "going").exits(starter.ExitOK)
	require.Contains(t, again.stderr.String(), "has ended already: it is stopped")
}

func TestCluster_StopWhatNobodyHasStarted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", "a\n")
	b.stint("start", "--pool", "p", "--name", "idle", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	b.stint("stop", "idle").exits(starter.ExitOK)
	b.worker("p", "--exec", "cat")
	b.stint("watch", "idle").exits(starter.ExitStopped)
	b.requireNoOutput()
}

func TestCluster_JobThatIsNot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	for _, command := range []string{"status", "watch", "results", "stop"} {
		b.refused(starter.ExitFailed, []string{command, "no-such-job"}, `no job named "no-such-job"`, "stint list")
	}
}

// TestCluster_DrainHandsRestsOn (S15): a worker that is asked to end hands back what it has not
// done, and the job continues at once on another.
func TestCluster_DrainHandsRestsOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", numbers(60))
	filter := b.slowly()
	b.hold(4)
	first := b.worker("p", "--exec", filter, "--slots", "1", "--call-items", "2")
	waiting := b.start("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--batch-items", "60", "--expiry", "1h", "--wait", "--report", "report.json")
	eventually(t, "some items", func() bool { return b.lines("witness") > 3 })
	b.worker("p", "--exec", filter, "--slots", "1", "--call-items", "2")
	first.signals <- syscall.SIGTERM
	first.says("once more to end at once")
	b.release()
	first.exits(starter.ExitOK)
	waiting.exits(starter.ExitOK)
	requireSame(t, numbers(60), b.read("out.txt"))
	require.Equal(t, 60, b.lines("witness"), "no item is run twice")
	r := b.report("report.json")
	require.Zero(t, r.Retries)
	require.Zero(t, r.Expiries)
	require.GreaterOrEqual(t, r.Batches, int64(2))
}

func TestCluster_ServerCommandIsFoundByItsDirectory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	server := b.start("server", "--port", "0", "--ui-port", "0")
	server.says("Temporal server:")
	b.worker("p", "--exec", "tr a-z A-Z")
	b.stint("start", "--pool", "p", "--name", "one", "in.txt", "-o", "out.txt", "--wait").exits(starter.ExitOK)
	require.Equal(t, "A\n", b.read("out.txt"))
	second := b.stint("server", "--port", "0", "--ui-port", "0").exits(starter.ExitFailed)
	require.Contains(t, second.stderr.String(), "in use by process")
	server.signals <- syscall.SIGTERM
	server.exits(starter.ExitOK)
}

func TestCluster_ServerKeepsJobsOverARestart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	server := b.start("server", "--ui-port", "0")
	server.says("Temporal server:")
	b.stint("start", "--pool", "p", "--name", "one", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	server.signals <- syscall.SIGTERM
	server.exits(starter.ExitOK)
	b.start("server", "--ui-port", "0").says("Temporal server:")
	b.worker("p", "--exec", "tr a-z A-Z")
	b.stint("watch", "one").exits(starter.ExitOK)
	require.Equal(t, "A\n", b.read("out.txt"))
}

func TestCluster_ServerPortsThatAreTaken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := b.server()
	_, port, _ := strings.Cut(server.Address(), ":")
	b.refused(starter.ExitFailed, []string{"server", "--port", port}, port, "in use")
}

// TestStatus_NobodyCoordinates (W11): a job whose pool is served, but that no worker coordinates at present, is not
// said to have no worker.
func TestStatus_NobodyCoordinates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(10))
	b.cluster()
	b.env = append(b.env, noJobs+"=1")
	w := b.spawnCommand(goWorker(t, "slow", "")())
	w.says("serving pool p")
	b.spawn("start", "--pool", "p", "--name", "j", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	eventually(t, "the server to know the worker", func() bool {
		status := b.spawn("status", "j")
		status.exits(starter.ExitFailed)
		return strings.Contains(status.stderr.String(), "workers serve pool p, but those that coordinate jobs")
	})
	w.signal(syscall.SIGTERM)
	w.exits(starter.ExitOK)
}
