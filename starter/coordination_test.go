package starter_test

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// running starts a job of n items on the pool "p", whose worker is slow, and waits until it has done some of them. No
// more are run until release.
func (b *box) running(name string, n, some int, flags ...string) *command {
	b.t.Helper()
	b.write(name+".txt", numbers(n))
	line := []string{"start", "--pool", "p", "--name", name, name + ".txt", "-o", name + ".out", "--batch-items", "30", "--wait"}
	before := b.lines("witness")
	b.hold(before + some)
	c := b.start(append(line, flags...)...)
	eventually(b.t, name+" among the jobs", func() bool { // others may write to the witness, too
		return strings.Contains(b.stint("list").exits(starter.ExitOK).stdout.String(), name+" ")
	})
	eventually(b.t, "some items of "+name, func() bool { return b.lines("witness") >= before+some })
	return c
}

// stopped stops jobs that are held, and waits for their ends.
func (b *box) stopped(jobs []string, args ...string) *command {
	b.t.Helper()
	stop := b.start(append([]string{"stop", "--wait"}, args...)...)
	for _, name := range jobs {
		stop.says("stop of " + name + " requested")
	}
	b.release()
	return stop.exits(starter.ExitOK)
}

// TestCluster_StopAndResume (S11, S12): a stopped job continues with the workers that serve the pool by then;
// nothing that was recorded is run again, nothing is missed.
func TestCluster_StopAndResume(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	first := b.worker("p", "--exec", b.slowly(), "--slots", "2", "--call-items", "5")
	job := b.running("nightly", 600, 100, "--window", "3")
	stopped := b.stopped([]string{"nightly"}, "nightly", "--reason", "maintenance")
	require.Contains(t, stopped.stderr.String(), "nightly: stopped, ")
	job.exits(starter.ExitStopped)
	require.Contains(t, b.stint("status", "nightly").stdout.String(), "maintenance")
	done := b.lines("witness")
	first.signals <- syscall.SIGINT
	first.exits(starter.ExitOK)
	b.worker("p", "--exec", b.slowly()+" other", "--slots", "3", "--call-items", "7")
	resumed := b.stint("resume", "nightly", "window=5", "--wait").exits(starter.ExitOK)
	require.Contains(t, resumed.stderr.String(), "items done by earlier runs")
	requireSame(t, numbers(600), b.read("nightly.out"))
	require.Equal(t, 600, b.lines("witness"), "no item is run twice; %d before the resume", done)
	again := b.stint("resume", "nightly").exits(starter.ExitFailed)
	require.Contains(t, again.stderr.String(), "has completed: nothing is left to resume")
	b.refused(starter.ExitFailed, []string{"resume", "unheard-of"}, `no job named "unheard-of"`)
	b.refused(starter.ExitUsage, []string{"resume", "nightly", "window=0"}, "window 0: use 1 to 10000, or auto")
}

// TestCluster_ResumeAfterTerminate (S12): a job that was terminated continues from all that it had
// recorded, committed or not.
func TestCluster_ResumeAfterTerminate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := b.server()
	b.worker("p", "--exec", b.slowly(), "--slots", "2", "--call-items", "5")
	b.running("nightly", 400, 100).signals <- syscall.SIGINT
	running := b.stint("resume", "nightly").exits(starter.ExitFailed)
	require.Contains(t, running.stderr.String(), "job nightly is running")
	c := b.dial(server.Address())
	require.NoError(t, c.TerminateWorkflow(context.Background(), "nightly", "", "a person has done it"))
	before := b.lines("witness")
	eventually(t, "an answer", func() bool { return b.stint("status", "nightly", "--json").code == starter.ExitOK })
	var report job.Report
	b.reads(&report, "status", "nightly", "--json")
	require.Equal(t, job.Failed, report.State)
	require.Equal(t, job.ErrorGone, report.Error.Type)
	require.Positive(t, report.InFlight)
	b.release()
	b.stint("resume", "nightly", "--wait").exits(starter.ExitOK)
	requireSame(t, numbers(400), b.read("nightly.out"))
	require.LessOrEqual(t, b.lines("witness")-400, 2*30+10, "only what was in hand is run again (%d before)", before)
}

// TestCluster_StopOfAPool (S9): every job of the pool is stopped and no other; a pool without jobs
// is not an error.
func TestCluster_StopOfAPool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.worker("p", "--exec", b.slowly(), "--slots", "4")
	b.worker("q", "--exec", b.gated())
	b.write("q.txt", "a\n")
	other := b.start("start", "--pool", "q", "--name", "other", "q.txt", "-o", "q.out", "--wait")
	one := b.running("one", 3000, 50)
	two := b.running("two", 3000, 50)
	none := b.stint("stop", "--pool", "nobody").exits(starter.ExitOK)
	require.Equal(t, "0\n", none.stdout.String())
	stop := b.stopped([]string{"one", "two"}, "--pool", "p")
	require.Equal(t, "2\n", stop.stdout.String())
	require.Contains(t, stop.stderr.String(), "two: stopped")
	one.exits(starter.ExitStopped)
	two.exits(starter.ExitStopped)
	require.Equal(t, "1\n", b.stint("stop", "--all").exits(starter.ExitOK).stdout.String())
	b.open()
	other.await()
	for _, wrong := range [][]string{{"stop"}, {"stop", "one", "--all"}, {"stop", "--pool", "p", "--all"}, {"stop", "a", "b"}} {
		b.refused(starter.ExitUsage, wrong, "name one, or use --pool POOL or --all")
	}
}

// TestCluster_StopAllRequestsFirst (S9): every stop is requested before any job is waited for. Neither of
// these ends before the other's stop has been requested.
func TestCluster_StopAllRequestsFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	hook := b.script("hook", `touch $BOX/told-$STINT_JOB; while ! [ -e $BOX/told-one -a -e $BOX/told-two ]; do sleep 0.02; done`)
	b.worker("p", "--exec", b.slowly(), "--slots", "2", "--hook", "tell="+hook)
	one := b.running("one", 3000, 50, "--shutdown", "tell")
	two := b.running("two", 3000, 50, "--shutdown", "tell")
	stop := b.stopped([]string{"one", "two"}, "--all")
	require.Equal(t, "2\n", stop.stdout.String())
	one.exits(starter.ExitStopped)
	two.exits(starter.ExitStopped)
}

// TestCluster_StopWithAnError (S3, S5, S8): the job fails with it, unless its type is a clean one; one
// that has ended gives the error back.
func TestCluster_StopWithAnError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.worker("p", "--exec", b.slowly(), "--slots", "2")
	broken := b.running("broken", 3000, 30)
	b.stopped([]string{"broken"}, "broken", "--error", "BadInput: the export is of last week")
	broken.exits(starter.ExitFailed)
	require.Contains(t, broken.stderr.String(), "error: the export is of last week")
	late := b.stint("stop", "broken", "--error", "Late: nobody listens").exits(starter.ExitFailed)
	require.Contains(t, late.stderr.String(), "job broken has ended already: it is failed; the error was not recorded: Late: nobody listens")
	ended := b.stint("stop", "broken").exits(starter.ExitOK)
	require.Contains(t, ended.stderr.String(), "has ended already: it is failed")
	clean := b.running("clean", 3000, 30, "--clean-stop", "Enough,Done")
	b.stopped([]string{"clean"}, "clean", "--error", "Done: that will do")
	clean.exits(starter.ExitStopped)
	require.Contains(t, b.stint("status", "clean").stdout.String(), "Done: that will do")
	none := b.running("none", 3000, 30, "--clean-stop", "")
	b.stopped([]string{"none"}, "none", "--error", "OutOfRange: no more")
	none.exits(starter.ExitFailed)
	require.Contains(t, none.stderr.String(), "error: no more")
}

// TestCluster_NoCleanStop (S5): flag and job file can say that no error stops the job without making it fail; without
// either, the default is in force.
func TestCluster_NoCleanStop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := b.server()
	b.write("in.txt", "a\n")
	for _, c := range []struct {
		name, line string
		flags      []string
		want       []string
	}{
		{"default", "", nil, []string{limits.CleanStopType}},
		{"flag", "", []string{"--clean-stop", ""}, []string{limits.NoCleanStop}},
		{"file-list", "clean-stop: []\n", nil, []string{limits.NoCleanStop}},
		{"file-text", "clean-stop: ''\n", nil, []string{limits.NoCleanStop}},
		{"flag-outranks", "clean-stop: []\n", []string{"--clean-stop", "Done"}, []string{"Done"}},
		{"outranks-file", "clean-stop: [A]\n", []string{"--clean-stop", ""}, []string{limits.NoCleanStop}},
	} {
		b.write("job.yaml", "input: in.txt\npool: nobody\noutput: out.txt\n"+c.line)
		b.stint(append([]string{"start", "-f", "job.yaml", "--name", c.name}, c.flags...)...).exits(starter.ExitOK)
		spec, err := jobs.NewClient(b.dial(server.Address()), nil).Spec(t.Context(), c.name)
		require.NoError(t, err)
		require.Equal(t, c.want, spec.CleanStop, c.name)
	}
}

// TestCluster_Set: settings change while the job runs, and the report shows them.
func TestCluster_Set(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.worker("p", "--exec", b.slowly(), "--slots", "2", "--call-items", "5")
	job := b.running("nightly", 400, 50)
	now := b.stint("set", "nightly", "window=7", "rate=2000", "max-failed=10%", "batch-items=11").exits(starter.ExitOK)
	require.Equal(t, "window       7\nbatch-items  11\nmax-failed   10%\nrate         2000\n", now.stdout.String())
	status := b.stint("status", "nightly").exits(starter.ExitOK).stdout.String()
	for _, text := range []string{"window", "7", "10%", "2000", "oldest running"} {
		require.Contains(t, status, text)
	}
	b.hold(b.lines("witness") + 150)
	eventually(t, "a batch's end in the status", func() bool {
		status := b.stint("status", "nightly").stdout.String()
		return strings.Contains(status, "items/s on average") && strings.Contains(status, " batches, the last ")
	})
	auto := b.stint("set", "nightly", "window=auto").exits(starter.ExitOK)
	require.Contains(t, auto.stdout.String(), "window       auto\n")
	require.Contains(t, b.stint("status", "nightly").exits(starter.ExitOK).stdout.String(), "auto (")
	b.refused(starter.ExitUsage, []string{"set", "nightly", "window=0"}, "window 0: use 1 to 10000, or auto")
	b.refused(starter.ExitUsage, []string{"set", "nightly"}, "needs more arguments: 'stint set JOB NAME=VALUE…'")
	b.refused(starter.ExitUsage, []string{"set", "nightly", "size=3"}, `"size": unknown setting: use`)
	b.refused(starter.ExitFailed, []string{"set", "unheard-of", "window=3"}, `no job named "unheard-of"`)
	b.release()
	job.exits(starter.ExitOK)
	requireSame(t, numbers(400), b.read("nightly.out"))
	b.refused(starter.ExitFailed, []string{"set", "nightly", "window=3"}, "has ended already: it is completed")
}

// TestRun_Rates: a job goes no faster than it or its worker may, and gives the same.
func TestRun_Rates(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--job-rate", "--rate"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", numbers(60))
			b.refused(starter.ExitUsage, []string{"run", "--exec", "cat", "in.txt", flag, "fast"}, "rate \"fast\"")
			c := b.stint("run", "--exec", "cat", "in.txt", "-o", "out.txt", flag, "20", "--slots", "4").exits(starter.ExitOK)
			requireSame(t, numbers(60), b.read("out.txt"))
			require.GreaterOrEqual(t, c.took.Seconds(), 1.9, "60 items at 20 a second, the first 20 perhaps at once")
		})
	}
}

// TestRun_FilterAsksForLess: with exit status 75 no item has failed; if calls in a row ask for that, the job slows down
// and reports it.
func TestRun_FilterAsksForLess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(200))
	filter := b.script("busy", `for n in 1 2 3 4; do if mkdir $BOX/asked$n 2> /dev/null; then echo 'retry-after: 0.2' >&2; exit 75; fi; done; exec cat`)
	b.stint("run", "--exec", filter, "in.txt", "-o", "out.txt", "--batch-items", "20", "--slots", "1", "--report", "report.json", "--attempts", "1").exits(starter.ExitOK)
	requireSame(t, numbers(200), b.read("out.txt"))
	r := b.report("report.json")
	require.EqualValues(t, 1, r.SlowDowns)
	require.Zero(t, r.Crashes)
	require.Zero(t, r.Retries)
}

// oddFails is a filter that crashes on the lines that end in an odd digit.
func (b *box) oddFails() string {
	return b.script("odd", `while read n; do case $n in *[13579]) echo "odd: $n" >&2; exit 3;; esac; echo $n; done`)
}

// TestRun_OnError (S16): failed items are recorded, or only counted, or stop the job.
func TestRun_OnError(t *testing.T) {
	t.Parallel()
	for on, code := range map[string]int{"record": starter.ExitSomeFailed, "drop": starter.ExitSomeFailed, "stop": starter.ExitFailed} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", numbers(40))
			c := b.stint("run", "--exec", b.oddFails(), "in.txt", "-o", "out.txt", "--on-error", on, "--batch-items", "10",
				"--attempts", "1", "--report", "report.json", "--slots", "1").exits(code)
			r := b.report("report.json")
			require.NotZero(t, r.Failed)
			switch on {
			case "record":
				require.Equal(t, 20, b.lines("out.txt.errors.jsonl"))
			case "drop":
				require.NoFileExists(t, b.path("out.txt.errors.jsonl"))
				require.EqualValues(t, 20, r.Failed)
				require.Equal(t, 20, b.lines("out.txt"))
			case "stop":
				require.Contains(t, c.stderr.String(), " failed: exit 3: odd: ")
				require.NoFileExists(t, b.path("out.txt"))
				require.EqualValues(t, r.Failed, b.lines("out.txt.errors.jsonl"))
			}
		})
	}
	b := setup(t)
	b.refused(starter.ExitUsage, []string{"run", "--exec", "cat", b.write("in.txt", "a\n"), "--on-error", "panic"}, `on-error "panic": use record, drop or stop`)
}

// TestRun_MaxFailed: too many failures end the job as failed; with more allowed the same command
// continues.
func TestRun_MaxFailed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(100))
	line := []string{"run", "--exec", b.oddFails(), "in.txt", "-o", "out.txt", "--batch-items", "10", "--attempts", "1", "--slots", "1"}
	b.refused(starter.ExitUsage, append(line, "--max-failed", "some"), `max-failed "some"`)
	c := b.stint(append(line, "--max-failed", "12")...).exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), "more than max-failed 12 allows")
	require.NoFileExists(t, b.path("out.txt"))
	require.Greater(t, b.lines("out.txt.errors.jsonl"), 12, "those that have failed so far are listed")
	require.Less(t, b.lines("out.txt.errors.jsonl"), 50)
	b.stint(append(line, "--max-failed", "60%")...).exits(starter.ExitSomeFailed)
	require.Equal(t, 50, b.lines("out.txt"))
	require.Equal(t, 50, b.lines("out.txt.errors.jsonl"))
}

// TestRun_NothingWorks: a handler that fails every item ends the job, which says so, and not after
// the whole input.
func TestRun_NothingWorks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(20_000))
	broken := b.script("broken", `echo "no such module" >&2; exit 1`)
	c := b.stint("run", "--exec", broken, "in.txt", "-o", "out.txt", "--attempts", "1", "--call-items", "0", "--batch-items", "100", "--report", "report.json").exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), "nothing works: all of the first ")
	require.Contains(t, c.stderr.String(), "no such module")
	require.Less(t, b.report("report.json").Failed, int64(5000))
}

// TestRun_Hooks (W9, W10): hooks are commands of the worker that the job names; each knows what it is
// run for.
func TestRun_Hooks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(50))
	filter := b.script("filter", `echo batch >> $BOX/order; exec cat`)
	hook := b.script("hook", `echo "$STINT_STAGE $1 $STINT_JOB" >> $BOX/order; echo $STINT_KEY >> $BOX/keys`)
	line := []string{"run", "--name", "hooked", "--exec", filter, "in.txt", "-o", "out.txt", "--batch-items", "25", "--slots", "1",
		"--hook", "prepare=" + hook + " p", "--hook", "tidy=" + hook + " t", "--init", "prepare", "--cleanup", "tidy"}
	b.refused(starter.ExitUsage, append(line, "--hook", "x"), `--hook "x": write NAME=COMMAND`)
	b.refused(starter.ExitUsage, append(line, "--hook", "tidy=ls"), "--hook tidy: there is a hook of that name already")
	b.stint(line...).exits(starter.ExitOK)
	require.Equal(t, "init p hooked\nbatch\nbatch\ncleanup t hooked\n", b.read("order"))
	keys := strings.Fields(b.read("keys"))
	require.Len(t, keys, 2)
	require.NotEqual(t, keys[0], keys[1])
	c := b.stint(append(line, "--init", "unknown", "--fresh")...).exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), `the worker has no hook "unknown" (it has prepare, tidy)`)
	bad := b.script("bad", `echo "no database" >&2; exit 4`)
	c = b.stint("run", "--exec", filter, "in.txt", "-o", "out2.txt", "--hook", "bad="+bad, "--init", "bad", "--attempts", "2", "--backoff", "1ms").exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), "an init hook failed, and no batch was run: exit 4: no database")
}

// TestRun_JobFileHasTheNewKeys: the job file takes the same values as the flags.
func TestRun_JobFileHasTheNewKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(40))
	b.write("job.yaml", "input: in.txt\noutput: out.txt\non-error: drop\nmax-failed: 90%\njob-rate: 100000\nclean-stop: [A, B]\nbatch-items: 10\nattempts: 1\nreport: report.json\n")
	b.stint("run", "-f", "job.yaml", "--exec", b.oddFails()).exits(starter.ExitSomeFailed)
	data, err := json.Marshal(b.report("report.json").Settings)
	require.NoError(t, err)
	require.JSONEq(t, `{"window":0,"batch_items":10,"max_failed":"90%","rate":100000,
		"request_rate":0,"token_rate":0,"max_cost":0,"max_tokens":0,"deadline":"","priority":3}`, string(data))
}
