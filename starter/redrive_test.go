package starter_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// refusing makes a filter that makes letters upper-case, and gives no result for lines that match one of
// the patterns in force.
func (b *box) refusing() string {
	b.t.Helper()
	return b.script("refusing", `sed -f $BOX/rules | tr a-z A-Z`)
}

// refuse sets the patterns in force.
func (b *box) refuse(patterns ...string) {
	b.t.Helper()
	rules := ""
	for _, p := range patterns {
		rules += "/" + p + "/d\n"
	}
	b.write("rules", rules)
}

// failedItems lists the ordinals in an errors file; none if there is no file.
func (b *box) failedItems(name string) []int64 {
	b.t.Helper()
	items := []int64{}
	if b.size(name) == 0 {
		require.NoFileExists(b.t, b.path(name))
		return items
	}
	for _, f := range b.failures(name) {
		items = append(items, f.Item)
	}
	return items
}

// startRefusing starts a job with the refusing filter's pool and waits for its end.
func (b *box) startRefusing(code int, name, input, output string, args ...string) {
	b.t.Helper()
	args = append([]string{"start", "--pool", "p", "--name", name, input, "-o", output, "--backoff", "1ms", "--wait"}, args...)
	b.stint(args...).exits(code)
}

func TestRedrive_FixedHandler(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	input := records(500)
	b.write("in.jsonl", input)
	b.refuse(`"id":0,`, `"id":77,`, `"id":78,`, `"id":499,`)
	b.worker("p", "--exec", b.refusing())
	b.startRefusing(starter.ExitSomeFailed, "nightly", "in.jsonl", "out.jsonl", "--batch-items", "60")
	require.Equal(t, []int64{0, 77, 78, 499}, b.failedItems("out.jsonl.errors.jsonl"))

	b.refuse()
	require.NoError(t, os.Remove(b.path("in.jsonl")), "the records have the input")
	c := b.stint("redrive", "nightly", "--wait").exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), "nightly: completed: 500 items ok, 0 failed")
	require.Contains(t, c.stderr.String(), "4 failed items run again")
	requireSame(t, upper(t, input), b.read("out.jsonl"))
	require.NoFileExists(t, b.path("out.jsonl.errors.jsonl"))
	requireSame(t, upper(t, input), b.stint("results", "nightly").exits(starter.ExitOK).stdout.String())
	require.Empty(t, b.stint("errors", "nightly", "--records").exits(starter.ExitOK).stdout.String())

	c = b.stint("redrive", "nightly", "--wait").exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), "no failed items")
	requireSame(t, upper(t, input), b.read("out.jsonl"))
}

func TestRedrive_UntilNothingFails(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"out.jsonl", "out/"} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.server()
			input := records(300)
			b.write("in.jsonl", input)
			b.refuse(`"id":.*7,`)
			b.worker("p", "--exec", b.refusing())
			b.startRefusing(starter.ExitSomeFailed, "nightly", "in.jsonl", output, "--batch-items", "40")
			errorsFile := "out.jsonl.errors.jsonl"
			if output == "out/" {
				errorsFile = "out/errors.jsonl"
			}
			require.Len(t, b.failedItems(errorsFile), 30)

			b.refuse(`"id":17,`, `"id":297,`)
			b.stint("redrive", "nightly", "--wait", "--batch-items", "4").exits(starter.ExitSomeFailed)
			require.Equal(t, []int64{17, 297}, b.failedItems(errorsFile))
			failure := b.failures(errorsFile)[0]
			require.Equal(t, b.path("in.jsonl"), failure.Source)
			require.Equal(t, strings.Index(input, `{"id":17,`), int(failure.Offset))
			var r job.Report
			b.reads(&r, "status", "nightly", "--json")
			require.Equal(t, job.Completed, r.State)
			require.EqualValues(t, 300, r.Planned)
			require.EqualValues(t, 298, r.OK)
			require.EqualValues(t, 2, r.Failed)
			require.EqualValues(t, 30, r.Redriven)
			require.EqualValues(t, 17, r.FirstError.Item)
			require.GreaterOrEqual(t, r.Batches, int64(30/4))

			b.refuse()
			b.stint("redrive", "nightly").exits(starter.ExitOK)
			b.stint("watch", "nightly").exits(starter.ExitOK)
			require.Empty(t, b.failedItems(errorsFile))
			requireSame(t, upper(t, input), b.stint("results", "nightly").exits(starter.ExitOK).stdout.String())
			if output == "out.jsonl" {
				requireSame(t, upper(t, input), b.read("out.jsonl"))
			}
		})
	}
}

func TestRedrive_Refused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", numbers(20))
	b.refused(starter.ExitFailed, []string{"redrive", "no-such-job"}, `no job named "no-such-job"`)
	b.refused(starter.ExitUsage, []string{"redrive"}, "arg")
	b.refused(starter.ExitUsage, []string{"redrive", "going", "--batch-items", "-1"}, "--batch-items -1")
	b.worker("p", "--exec", b.gated(), "--slots", "1")
	b.stint("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--batch-items", "2").exits(starter.ExitOK)
	eventually(t, "the filter", func() bool { return b.lines("started") > 0 })
	b.refused(starter.ExitFailed, []string{"redrive", "going"}, "going is running")
	b.stint("stop", "going", "--grace", "0s", "--wait")
	b.refused(starter.ExitFailed, []string{"redrive", "going"}, "going is stopped", "stint resume going")
	b.requireNoOutput()
}

// A redrive that is stopped leaves the output as it was; the next one continues it.
func TestRedrive_StoppedAndGoneOnWith(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	input := numbers(100)
	b.write("in.txt", input)
	b.refuse("[13579]$")
	filter := b.script("filter", `echo $$ >> $BOX/started
[ ! -e $BOX/redriving ] || mkdir $BOX/first 2> /dev/null || while [ ! -e $BOX/gate ]; do sleep 0.02; done
sed -f $BOX/rules`)
	b.worker("p", "--exec", filter, "--slots", "1")
	b.startRefusing(starter.ExitSomeFailed, "nightly", "in.txt", "out.txt", "--batch-items", "10")
	before, errorsBefore := b.read("out.txt"), b.read("out.txt.errors.jsonl")

	b.refuse()
	b.write("redriving", "")
	b.write("started", "")
	waiting := b.start("redrive", "nightly", "--wait", "--batch-items", "5", "--json")
	eventually(t, "a call that waits", func() bool { return b.lines("started") == 2 })
	again := b.stint("redrive", "nightly").exits(starter.ExitFailed)
	require.Contains(t, again.stderr.String(), "nightly is running")
	var results *command
	eventually(t, "the results", func() bool { // a busy machine asks to be asked again
		results = b.stint("results", "nightly")
		return results.code == starter.ExitOK
	})
	requireSame(t, before, results.stdout.String())
	b.stint("stop", "nightly", "--grace", "1h").exits(starter.ExitOK)
	eventually(t, "the stop", func() bool {
		var jobs []jobs.Listed
		b.reads(&jobs, "list", "--json")
		return jobs[0].State == job.Stopping
	})
	b.open()
	waiting.exits(starter.ExitStopped)
	requireSame(t, before, b.read("out.txt"))
	requireSame(t, errorsBefore, b.read("out.txt.errors.jsonl"))
	requireSame(t, errorsBefore, b.stint("errors", "nightly", "--records").exits(starter.ExitOK).stdout.String())
	var r job.Report
	b.reads(&r, "status", "nightly", "--json")
	require.Equal(t, job.Stopped, r.State)
	require.NotEmpty(t, r.Redrive.Done)

	b.stint("redrive", "nightly", "--wait").exits(starter.ExitOK)
	requireSame(t, input, b.read("out.txt"))
	var done job.Report
	b.reads(&done, "status", "nightly", "--json")
	require.EqualValues(t, 50, done.Redriven)
	require.Positive(t, done.Resumed, "what the first attempt had done is not done again")
	require.Nil(t, done.Redrive)
}

// An output that was changed since is not merged into; put back, it is.
func TestRedrive_OutputChangedByOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", "a\nbad\nb\n")
	b.refuse("bad")
	b.worker("p", "--exec", b.refusing())
	b.startRefusing(starter.ExitSomeFailed, "nightly", "in.txt", "out.txt")
	b.refuse()
	b.write("out.txt", "A\nX\n")
	c := b.stint("redrive", "nightly", "--wait").exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), b.path("out.txt")+" has changed since the job wrote it")
	require.Contains(t, c.stderr.String(), "put it back and redrive again")
	require.Equal(t, "A\nX\n", b.read("out.txt"))
	b.write("out.txt", "A\nB\n")
	b.stint("redrive", "nightly", "--wait").exits(starter.ExitOK)
	require.Equal(t, "A\nBAD\nB\n", b.read("out.txt"))
}

// Failed items of `stint run` can be redriven on a server with its state; if that was stopped, the same
// command continues it.
func TestRedrive_OfARunsJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\nbad\nb\n")
	b.refuse("bad")
	line := []string{"run", "--exec", b.refusing(), "in.txt", "-o", "out.txt", "--name", "mine", "--backoff", "1ms"}
	b.stint(line...).exits(starter.ExitSomeFailed)
	server := b.start("server", "--port", "0", "--ui-port", "0")
	server.says("Temporal server:")
	b.stint("redrive", "mine").exits(starter.ExitOK)
	stopping := b.stint("stop", "mine").exits(starter.ExitOK)
	require.Contains(t, stopping.stderr.String(), "requested")
	worker := b.worker("mine", "--exec", b.refusing())
	b.stint("watch", "mine").exits(starter.ExitStopped)
	for _, c := range []*command{worker, server} {
		c.signals <- os.Interrupt
		c.exits(starter.ExitOK)
	}
	b.refuse()
	c := b.stint(line...).exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), "continuing the redrive of mine")
	require.Equal(t, "A\nBAD\nB\n", b.read("out.txt"))
}

func TestRedrive_InABucket(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"out.txt", "out/"} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			b, s := setup(t), newBucket(t)
			b.server()
			s.put("in.txt", numbers(300))
			b.refuse("7$")
			b.worker("p", "--exec", b.refusing(), "--allow", s.at(""))
			b.startRefusing(starter.ExitSomeFailed, "one", s.at("in.txt"), s.at(output), "--batch-items", "50")
			b.refuse("17$")
			b.stint("redrive", "one", "--wait").exits(starter.ExitSomeFailed)
			b.refuse()
			b.stint("redrive", "one", "--wait").exits(starter.ExitOK)
			requireSame(t, numbers(300), b.stint("results", "one").exits(starter.ExitOK).stdout.String())
			if output == "out.txt" {
				requireSame(t, numbers(300), s.get("out.txt"))
			}
		})
	}
}

// Whatever the format, the batches and which items fail: at the end the output is that of a clean run.
func TestRedrive_RandomJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.refuse()
	b.worker("p", "--exec", b.refusing())
	for round := range 6 {
		seed := uint64(round)
		random := rand.New(rand.NewPCG(seed, seed))
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			b := &box{t: t, dir: b.dir, env: b.env}
			name, input := fmt.Sprint("job-", round), ""
			file := name + []string{".txt", ".jsonl", ".csv"}[round%3]
			n := 1 + random.IntN(60)
			switch round % 3 {
			case 0:
				for i := range n {
					input += fmt.Sprintf("%d\t\"line\" <%x> \xff\r\n", i, random.Uint32())
				}
			case 1:
				for i := range n {
					input += fmt.Sprintf(`{"id": %d,  "t":"é \u00e9 <%x>" }`+"\n", i, random.Uint32())
				}
			case 2:
				input = "id,text\n"
				for i := range n {
					input += fmt.Sprintf("%d,\"two\nlines, \"\"%x\"\"\"\n", i, random.Uint32())
				}
			}
			b.write(file, input)
			size := func() string { return fmt.Sprint(1 + random.IntN(20)) }
			b.refuse()
			b.startRefusing(starter.ExitOK, name+"-clean", file, name+"-clean.out", "--batch-items", size())
			b.refuse("[0-4]>", "[0-4]\\\\")
			b.startRefusing(starter.ExitSomeFailed, name, file, name+".out", "--batch-items", size())
			b.refuse("[02]>", "[02]\\\\")
			c := b.stint("redrive", name, "--wait", "--batch-items", size())
			require.Contains(t, []int{starter.ExitSomeFailed, starter.ExitOK}, c.code, c.stderr.String())
			b.refuse()
			b.stint("redrive", name, "--wait", "--batch-items", size()).exits(starter.ExitOK)
			requireSame(t, b.read(name+"-clean.out"), b.read(name+".out"))
			require.NoFileExists(t, b.path(name+".out.errors.jsonl"))
		})
	}
}
