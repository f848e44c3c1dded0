package starter_test

import (
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// picky makes a command that fails in several ways, by the last digits of its argument; what it does is in force as
// soon as it is called.
func (b *box) picky() string {
	b.t.Helper()
	return b.script("picky", `
n=$(echo $1 | sed 's/^0*//')
[ ! -e $BOX/mended ] || { echo $n; exit; }
case $1 in
*10) echo "no bird $n in '/data/$n.csv'" >&2; exit 3 ;;
*3) echo "record $n has no name" >&2; exit 3 ;;
*07) kill -9 $$ ;;
*15) echo "line $n" >&2; exit 4 ;;
esac
echo $n`) + " {}"
}

// W1: the failed items of a job are grouped by kind, type and message; an expression selects records, and each group shows
// its own. The report has the groups, and so has the end of the job.
func TestErrors(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", numbers(300))
	b.worker("p", "--each", b.picky())
	waiting := b.stint("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--backoff", "1ms", "--attempts", "1", "--wait").exits(starter.ExitSomeFailed)
	const groups = `30 × exit 3: record 3 has no name (item 3)
     --where 'kind=exit type=Exit message="exit 3: record * has no name"'
 3 × crash: signal: killed (item 7)
     --where 'kind=crash type=Signal message="signal: killed"'
 3 × exit 3: no bird 10 in '/data/10.csv' (item 10)
     --where "kind=exit type=Exit message=\"exit 3: no bird * in '*'\""
 3 × exit 4: line 15 (item 15)
     --where 'kind=exit type=Exit message="exit 4: line *"'
`
	require.Equal(t, groups, b.stint("errors", "nightly").exits(starter.ExitOK).stdout.String())
	require.Contains(t, waiting.stderr.String(), "30 × exit 3: record 3 has no name (item 3)\n     3 × crash: signal: killed (item 7)")
	var report job.Report
	b.reads(&report, "status", "nightly", "--json")
	var shown []job.FailureGroup
	b.reads(&shown, "errors", "nightly", "--json")
	require.Equal(t, shown, report.Failures)
	require.Len(t, shown, 4)
	require.Equal(t, job.FailureGroup{Kind: job.KindExit, Type: "Exit", Pattern: "exit 3: record * has no name", Count: 30, Item: 3, Message: "exit 3: record 3 has no name"}, shown[0])

	records := func(where string) string {
		return b.stint("errors", "nightly", "--where", where).exits(starter.ExitOK).stdout.String()
	}
	all := b.stint("errors", "nightly", "--records").exits(starter.ExitOK).stdout.String()
	requireSame(t, b.read("out.txt.errors.jsonl"), all)
	requireSame(t, all, records("attempts>0"))
	crashes := ""
	for line := range strings.Lines(all) {
		if strings.Contains(line, `"kind":"crash"`) {
			crashes += line
		}
	}
	requireSame(t, crashes, records("kind=crash"))
	for _, group := range shown {
		require.EqualValues(t, group.Count, strings.Count(records(string(group.Where())), "\n"), group.Where())
	}
	require.Empty(t, records("kind=expired"))
	b.declined(starter.ExitUsage, []string{"errors", "nightly", "--where", "name=x"}, `--where: "name": unknown key: use key=value`)
}

// W1: what would be ignored is refused before anything is asked, with what to do.
func TestErrors_Flags(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for args, says := range map[string]string{
		"--where kind=crash --json":    "--where and --json: --where prints records, each a line of JSON: leave --json out",
		"--records --json":             "--records and --json: --records prints records, each a line of JSON: leave --json out",
		"--follow --json":              "--follow and --json: --follow prints records, each a line of JSON: leave --json out",
		"--where kind=crash --records": "--where and --records: --where prints the records that it selects, --records those of all: leave one of them out",
	} {
		b.declined(starter.ExitUsage, append([]string{"errors", "nightly"}, strings.Fields(args)...), says)
	}
}

// W1: of a job that runs, and of one that has failed or was stopped, the groups are of what has been committed.
func TestErrors_OfUnfinishedJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", numbers(100))
	b.worker("p", "--exec", b.script("filter", `
while read -r n; do
	case $n in *7) echo "no $n" >&2; exit 3; esac
	while [ $n -gt 90 -a ! -e $BOX/gate ]; do sleep 0.02; done
	echo $n
done`), "--slots", "1")
	b.stint("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--batch-items", "2", "--attempts", "1", "--max-failed", "9").exits(starter.ExitOK)
	said := func() string { return b.stint("errors", "going").stdout.String() }
	eventually(t, "the first leg's errors", func() bool { return strings.HasSuffix(said(), "message=\"exit 3: no *\"'\n") })
	require.Regexp(t, `^\d × exit 3: no 0000007 \(item 7\)\n`, said())
	b.open()
	b.stint("watch", "going").exits(starter.ExitFailed)
	require.Regexp(t, `^10 × exit 3`, said())
	var report job.Report
	b.reads(&report, "status", "going", "--json")
	require.Equal(t, job.Failed, report.State)
	require.Len(t, report.Failures, 1)
	require.EqualValues(t, 10, report.Failures[0].Count)

	b.write("good.txt", "1\n")
	b.stint("start", "--pool", "p", "--name", "good", "good.txt", "-o", "good.out.txt", "--wait").exits(starter.ExitOK)
	c := b.stint("errors", "good").exits(starter.ExitOK)
	require.Empty(t, c.stdout.String())
	require.Contains(t, c.stderr.String(), "good has no records of failed items")
	require.Equal(t, "[]\n", b.stint("errors", "good", "--json").exits(starter.ExitOK).stdout.String())
}

// linesWith returns the lines of a text that contain a part, and the others.
func linesWith(text, part string) (with, without string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			with += line
		} else {
			without += line
		}
	}
	return with, without
}

// W2: only the failed items that an expression selects run again; the records of others stay, byte for byte. If it selects
// none, nothing is started. A redrive that was stopped goes on with its own expression.
func TestRedrive_Where(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"out.txt", "out/"} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.server()
			b.write("in.txt", numbers(300))
			b.worker("p", "--each", b.picky(), "--slots", "1")
			b.stint("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", output, "--backoff", "1ms", "--attempts", "1", "--wait").exits(starter.ExitSomeFailed)
			records := func() string { return b.stint("errors", "nightly", "--records").exits(starter.ExitOK).stdout.String() }
			crashes, others := linesWith(records(), `"kind":"crash"`)
			require.NotEmpty(t, crashes)

			b.write("mended", "")
			c := b.stint("redrive", "nightly", "--where", "kind=crash", "--wait").exits(starter.ExitSomeFailed)
			require.Contains(t, c.stderr.String(), "3 failed items run again")
			requireSame(t, others, records())
			var r job.Report
			b.reads(&r, "status", "nightly", "--json")
			require.EqualValues(t, 36, r.Failed)
			require.EqualValues(t, 264, r.OK)
			require.EqualValues(t, 3, r.Redriven)
			require.Len(t, r.Failures, 3)

			c = b.stint("redrive", "nightly", "--where", "kind=crash", "--wait").exits(starter.ExitOK)
			require.Contains(t, c.stderr.String(), "job nightly has no failed item with kind=crash: there is nothing to run again")
			var after job.Report
			b.reads(&after, "status", "nightly", "--json")
			require.Equal(t, r.Run, after.Run, "nothing was started")
			b.declined(starter.ExitUsage, []string{"redrive", "nightly", "--where", "kind=slow"}, `--where: kind "slow": unknown kind`)
			b.declined(starter.ExitUsage, []string{"redrive", "nightly", "--where", ""}, "--where: no condition given")

			stays, _ := linesWith(records(), "record")
			b.stint("redrive", "nightly", "--where", `message!="record *"`, "--wait").exits(starter.ExitSomeFailed)
			requireSame(t, stays, records())
			b.stint("redrive", "nightly", "--where", "attempts>0", "--wait").exits(starter.ExitOK)
			require.Empty(t, records())
			requireSame(t, sansZeros(numbers(300)), b.stint("results", "nightly").exits(starter.ExitOK).stdout.String())
		})
	}
}

// sansZeros is what picky prints for lines of numbers.
func sansZeros(lines string) (printed string) {
	for line := range strings.Lines(lines) {
		printed += strings.TrimLeft(line, "0")
	}
	return printed
}

// W2: a redrive of some items that is stopped or killed continues with these, and refuses another expression meanwhile.
func TestRedrive_WhereGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(100))
	b.cluster()
	filter := b.script("filter", `echo "$1" >> $BOX/called
case $1 in
*7) [ -e $BOX/mended ] || { echo "no seven" >&2; exit 3; } ;;
*3) [ -e $BOX/mended ] || { echo "no three" >&2; exit 4; } ;;
esac
[ ! -e $BOX/mended ] || while [ ! -e $BOX/gate ]; do sleep 0.02; done
echo $1`) + " {}"
	serve := func() *process {
		return b.spawn("worker", "--allow", b.dir, "--pool", "p", "--each", filter, "--slots", "1", "--concurrency", "1")
	}
	w := serve()
	b.spawn("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--attempts", "1", "--expiry", "2s", "--backoff", "100ms", "--wait").exits(starter.ExitSomeFailed)
	_, threes := linesWith(b.read("out.txt.errors.jsonl"), "no seven")
	b.write("mended", "")
	b.write("called", "")

	redrive := b.spawn("redrive", "nightly", "--where", `message="no seven"`, "--batch-items", "1", "--wait")
	eventually(t, "a call", func() bool { return b.lines("called") > 0 })
	w.kill()
	serve()
	eventually(t, "another call", func() bool { return b.lines("called") > 1 })
	b.spawn("stop", "nightly", "--grace", "1h").exits(starter.ExitOK)
	b.open()
	redrive.exits(starter.ExitStopped)
	b.declined(starter.ExitFailed, []string{"redrive", "nightly", "--where", "kind=exit"},
		`the last redrive of job nightly, of the failed items with message="no seven", has not completed: continue it first, with 'stint redrive nightly' without --where`)
	b.spawn("redrive", "nightly", "--wait").exits(starter.ExitSomeFailed)
	requireSame(t, threes, b.read("out.txt.errors.jsonl"))
	for line := range strings.Lines(b.read("called")) {
		require.True(t, strings.HasSuffix(line, "7\n"), "only these: %q", line)
	}
	b.spawn("redrive", "nightly", "--wait").exits(starter.ExitOK)
	requireSame(t, numbers(100), b.read("out.txt"))
}

// W2: the same without a server.
func TestRedrive_WhereInOneProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(100))
	each := b.picky()
	b.stint("run", "--each", each, "in.txt", "-o", "out.txt", "--attempts", "1", "--name", "mine").exits(starter.ExitSomeFailed)
	crashes, others := linesWith(b.read("out.txt.errors.jsonl"), `"kind":"crash"`)
	require.NotEmpty(t, crashes)
	b.write("mended", "")
	c := b.stint("redrive", "mine", "--each", each, "--where", "kind=expired").exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), "job mine has no failed item with kind=expired")
	b.stint("redrive", "mine", "--each", each, "--where", "kind=crash").exits(starter.ExitSomeFailed)
	requireSame(t, others, b.read("out.txt.errors.jsonl"))
}

// W3: --retry says how often what fails in one way is tried, --no-retry what is final at once; all else is tried as often
// as the job says. Flags and keys of a job file mean the same.
func TestRetry_ByRules(t *testing.T) {
	t.Parallel()
	flags := []string{"--item-attempts", "4", "--retry", `message="try again" attempts=6 backoff=2ms`, "--retry", "kind=exit message=once attempts=2", "--no-retry", "Signal,Other*"}
	for name, args := range map[string][]string{"flags": flags, "file": {"-f", "job.yaml"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.server()
			b.write("in.txt", numbers(40))
			b.write("job.yaml", `item-attempts: 4
retry:
- message="try again" attempts=6 backoff=2ms
- kind=exit message=once attempts=2
no-retry: [Signal, "Other*"]
`)
			b.worker("p", "--each", b.script("each", `echo x >> $BOX/calls$1
case $1 in
*3) [ $(wc -l < $BOX/calls$1) -ge 6 ] || { echo "try again later" >&2; exit 3; } ;;
*5) echo "once more" >&2; exit 3 ;;
*7) kill -9 $$ ;;
*9) echo "broken" >&2; exit 3 ;;
esac
echo $1`)+" {}")
			line := append([]string{"start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--backoff", "1ms", "--wait"}, args...)
			b.stint(line...).exits(starter.ExitSomeFailed)
			for item, want := range map[string]int{"0000003": 6, "0000033": 6, "0000005": 2, "0000017": 1, "0000029": 4, "0000004": 1} {
				require.Equal(t, want, b.lines("calls"+item), item)
			}
			require.Len(t, b.failures("out.txt.errors.jsonl"), 12)
			for _, f := range b.failures("out.txt.errors.jsonl") {
				require.Equal(t, map[int64]int{5: 2, 7: 1, 9: 4}[f.Item%10], f.Attempts, f.Item)
			}
		})
	}
	b := setup(t)
	b.write("in.txt", "1\n")
	b.declined(starter.ExitUsage, []string{"run", "--exec", "cat", "in.txt", "-o", "out.txt", "--retry", "kind=crash"}, "no attempts given: use conditions on kind, type, message or stage, attempts=N")
}
