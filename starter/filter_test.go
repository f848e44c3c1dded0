package starter_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// TestFilter_CrashOnOneLineCostsOnlyThatLine has a filter that crashes on exactly one line of
// 100,000, in one call of all of them.
func TestFilter_CrashOnOneLineCostsOnlyThatLine(t *testing.T) {
	t.Parallel()
	const n, bad, attempts = 100_000, 61_803, 3
	b := setup(t)
	b.write("in.txt", numbers(n))
	filter := b.script("filter", fmt.Sprintf(`echo $$ >> $BOX/witness
exec awk '/%07d/ { print "warming up" > "/dev/stderr"; print "cannot bear " $0 > "/dev/stderr"; exit 7 } { print }'`, bad))
	c := b.stint("run", "--exec", filter, "in.txt", "-o", "out.txt", "--batch-items", itoa(n), "--call-items", itoa(n),
		"--attempts", itoa(attempts), "--backoff", "10ms", "--report", "report.json").exits(starter.ExitSomeFailed)
	require.Contains(t, c.stderr.String(), "99,999 items ok, 1 failed")
	require.Contains(t, c.stderr.String(), "first failed item: 61,803: exit 7: cannot bear 0061803")
	requireSame(t, strings.Replace(numbers(n), "0061803\n", "", 1), b.read("out.txt"))
	requireCrash(t, b, bad)
	r := b.report("report.json")
	require.EqualValues(t, n-1, r.OK)
	require.EqualValues(t, 1, r.Failed)
	require.Positive(t, r.Isolations)
	require.LessOrEqual(t, b.lines("witness")-1, isolationCalls(n, attempts), "extra calls")
}

// requireCrash requires one error record, of the bad line.
func requireCrash(t *testing.T, b *box, bad int64) {
	t.Helper()
	failures := b.failures("out.txt.errors.jsonl")
	require.Len(t, failures, 1)
	f := failures[0]
	require.Equal(t, bad, f.Item)
	require.Equal(t, b.path("in.txt"), f.Source)
	require.Equal(t, bad*lineOf, f.Offset)
	require.JSONEq(t, fmt.Sprintf(`"%07d"`, bad), string(f.Input))
	require.Equal(t, job.KindExit, f.Kind)
	require.Equal(t, fmt.Sprintf("exit 7: cannot bear %07d", bad), f.Error.Message)
	require.Contains(t, f.Error.Stack, "warming up\n")
	require.GreaterOrEqual(t, f.Attempts, 3)
}

// TestFilter_CrashWithAutomaticSizes: however calls are cut, the bad line costs at most as many further
// calls as in the largest of them.
func TestFilter_CrashWithAutomaticSizes(t *testing.T) {
	t.Parallel()
	const n, bad = 100_000, 99_999
	b := setup(t)
	b.write("in.txt", numbers(n))
	filter := b.script("filter", fmt.Sprintf(`echo $$ >> $BOX/witness
exec awk '/%07d/ { print "cannot bear " $0 > "/dev/stderr"; print NR >> "'$BOX/refused'"; exit 7 } { print }'`, bad))
	b.stint("run", "--exec", filter, "in.txt", "-o", "out.txt", "--backoff", "10ms", "--report", "report.json").exits(starter.ExitSomeFailed)
	requireSame(t, numbers(n-1), b.read("out.txt"))
	largest, err := strconv.Atoi(strings.SplitN(b.read("refused"), "\n", 2)[0]) // the bad line is the last one of its call
	require.NoError(t, err)
	r := b.report("report.json")
	require.EqualValues(t, n-1, r.OK)
	require.EqualValues(t, bad, r.FirstError.Item)
	// The answered calls are those of a run without the bad line, but for its own, which has
	// become at most one for each halving.
	failed := b.lines("witness") - int(r.Calls)
	halvings := isolationCalls(max(largest, int(r.CallMax)), 3)/2 + 1
	require.LessOrEqual(t, failed, halvings+3, "calls that failed")
	require.Less(t, r.Calls, r.Batches*10)
}

func TestFilter_EveryBadLineIsPinned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(2000))
	filter := b.script("filter", `exec awk '/000(0007|0008|1000|1999)/ { exit 3 } { print }'`)
	b.stint("run", "--exec", filter, "in.txt", "-o", "out.txt", "--backoff", "1ms", "--batch-items", "1000").exits(starter.ExitSomeFailed)
	var items []int64
	for _, f := range b.failures("out.txt.errors.jsonl") {
		require.Equal(t, job.KindExit, f.Kind)
		require.Equal(t, "exit 3", f.Error.Message)
		items = append(items, f.Item)
	}
	require.Equal(t, []int64{7, 8, 1000, 1999}, items)
	require.Equal(t, 1996, b.lines("out.txt"))
}

func TestFilter_Misbehaves(t *testing.T) {
	t.Parallel()
	tenK := strings.Repeat(strings.Repeat("x", 9_999)+"\n", 300) // more than a pipe holds
	for _, c := range []struct {
		name, body, input, want string
		code                    int
		kind, message           string
	}{
		{name: "it leaves a line out", body: `exec sed /bad/d`, input: "a\nbad\nb\nc\n", want: "a\nb\nc\n",
			code: 3, kind: job.KindLength, message: "the call was given 1 item and answered with 0 results"},
		{name: "it answers for ever", body: `exec yes`, input: "a\n", want: "",
			code: 3, kind: job.KindLength, message: "the call answered with more than 256 MiB"},
		{name: "it makes two lines of one", body: `exec awk '{ print } /bad/ { print "more" }'`, input: "a\nb\nbad\nc\n", want: "a\nb\nc\n",
			code: 3, kind: job.KindLength, message: "the call was given 1 item and answered with 2 results"},
		{name: "it answers nothing at all", body: `cat > /dev/null`, input: "a\n", want: "",
			code: 3, kind: job.KindLength, message: "the call was given 1 item and answered with 0 results"},
		{name: "it ignores its input", body: `exec seq 300`, input: tenK, want: seq(300)},
		{name: "it closes its input", body: `exec < /dev/null; exec seq 300`, input: tenK, want: seq(300)},
		{name: "it answers before it reads", body: `seq 300; exec cat > /dev/null`, input: tenK, want: seq(300)},
		{name: "it reads all before it answers", body: `exec sed -n 'H;${x;s/^\n//;p;}'`, input: tenK, want: tenK},
		{name: "it answers without a last newline", body: `tr a-z A-Z | head -c -1`, input: "a\nb\n", want: "A\nB\n"},
		{name: "it answers with an empty last line", body: `read x; read y; printf 'a\n\n'`, input: "x\ny\n", want: "a\n\n"},
		{name: "it says much on its standard error", body: `yes noise | head -c 30000000 >&2; exec cat`, input: "a\n", want: "a\n"},
		{name: "it answers and then fails", body: `cat; echo sorry >&2; exit 1`, input: "a\n", want: "",
			code: 3, kind: job.KindExit, message: "exit 1: sorry"},
		{name: "it kills itself", body: `kill -9 $$`, input: "a\n", want: "",
			code: 3, kind: job.KindCrash, message: "signal: killed"},
		{name: "its child keeps the pipes open", body: `sleep 1000 & exec cat`, input: "a\n", want: "a\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", c.input)
			filter := b.script("filter", c.body)
			b.stint("run", "--exec", filter, "in.txt", "-o", "out.txt", "--backoff", "1ms", "--attempts", "1", "--expiry", "1m", "--batch-items", "1000", "--call-items", "1000").exits(c.code)
			requireSame(t, c.want, b.read("out.txt"))
			if c.code == starter.ExitOK {
				return
			}
			failures := b.failures("out.txt.errors.jsonl")
			require.Len(t, failures, 1)
			require.Equal(t, c.kind, failures[0].Kind)
			require.Equal(t, c.message, failures[0].Error.Message)
		})
	}
}

func seq(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// TestFilter_Expires: a filter that does not end is killed with its group when the call's time is over,
// and the fault is narrowed down to its item.
func TestFilter_Expires(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body string }{
		{"it hangs", `sleep 1000`},
		{"it hangs and cannot be asked to end", `trap '' TERM INT HUP; while :; do sleep 1; done`},
		{"it writes its standard error for ever", `exec yes "no end" >&2`},
		{"its child hangs", `sh -c 'sleep 1000'; true`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", "a\nb\nbad\n")
			mark := b.mark()
			filter := b.script("filter", `lines=$(cat); case $lines in *bad*) `+c.body+`; esac; echo "$lines"`)
			b.stint("run", "--exec", filter, "in.txt", "-o", "out.txt", "--call-timeout", "3s", "--attempts", "1",
				"--batch-items", "3", "--env", mark, "--report", "report.json").exits(starter.ExitSomeFailed)
			require.Equal(t, "a\nb\n", b.read("out.txt"))
			failures := b.failures("out.txt.errors.jsonl")
			require.Len(t, failures, 1)
			require.EqualValues(t, 2, failures[0].Item)
			require.Equal(t, job.KindExpired, failures[0].Kind)
			require.Contains(t, failures[0].Error.Message, "took longer than 3s")
			require.LessOrEqual(t, len(failures[0].Error.Stack), 16<<10)
			require.Positive(t, b.report("report.json").Expiries)
			require.Empty(t, marked(t, mark), "processes left")
		})
	}
}

// TestFilter_ChildInASessionOfItsOwn (K12): it is not killed with the group, but the call ends it.
func TestFilter_ChildInASessionOfItsOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	mark := b.mark()
	filter := b.script("filter", `setsid sleep 60 & exec cat`)
	b.stint("run", "--exec", filter, "in.txt", "-o", "out.txt", "--env", mark).exits(starter.ExitOK)
	require.Equal(t, "a\n", b.read("out.txt"))
	require.Empty(t, marked(t, mark), "processes left")
}

func TestFilter_EnvironmentIsScrubbed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	c := b.stint("run", "--exec", "sh -c 'read x; env | cut -d= -f1 | sort | tr \"\\n\" \" \"; echo; '", "in.txt", "-q", "--env", "GIVEN=1")
	c.exits(starter.ExitOK)
	for name := range strings.FieldsSeq(c.stdout.String()) {
		require.True(t, strings.HasPrefix(name, "LC_") ||
			strings.Contains(" PATH HOME USER LANG TZ TMPDIR GIVEN PWD OLDPWD SHLVL _"+
				" STINT_WORKER STINT_SLOT STINT_INCARNATION STINT_MAX_RESTARTS STINT_SEED STINT_CHILD ", " "+name+" "), name)
	}
	require.Contains(t, c.stdout.String(), "GIVEN")
}

func TestFilter_RunsInTheDirectoryGiven(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	b.script("sub/filter", `read x; pwd`)
	c := b.stint("run", "--exec", "./filter", "--dir", b.path("sub"), "in.txt", "-q").exits(starter.ExitOK)
	require.Equal(t, b.path("sub")+"\n", c.stdout.String())
}
