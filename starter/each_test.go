package starter_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// parallel runs GNU parallel in the box, and returns what it prints, in input order.
func (b *box) parallel(args ...string) string {
	b.t.Helper()
	tool(b.t, "parallel")
	cmd := exec.Command("parallel", append([]string{"-k"}, args...)...)
	cmd.Dir = b.dir
	out, err := cmd.Output()
	if _, failed := errors.AsType[*exec.ExitError](err); !failed { // its status is how many commands have failed
		require.NoError(b.t, err, "%q", args)
	}
	return string(out)
}

// E2, E3: Whoever comes from parallel gets what they are used to: the same input, the same lines.
func TestEach_LikeParallel(t *testing.T) {
	t.Parallel()
	const names = "a dir/b.tar.gz\nno-extension\n/x/.hidden\n*\n$HOME 'q' \"d\" ; echo owned\n-n\ndir/\n"
	words := []string{"printf", `<%s>\n`, "{}", "{.}", "{/}", "{//}", "{/.}", "{#}", "a{}b{}"}
	for name, c := range map[string]struct {
		in              string // "": the items are on the command line
		parallel, stint []string
		exit            int
	}{
		"placeholders":     {names, append([]string{"-q"}, words...), append([]string{"--"}, words...), 0},
		"no placeholder":   {names, []string{"-q", "printf", `<%s>\n`}, []string{"--each", `printf '<%s>\n'`}, 0},
		"slot":             {"a\nb\n", []string{"-j1", "echo {%}"}, []string{"-j1", "--each", "echo {%}"}, 0},
		"values":           {"", []string{"-q", "printf", `<%s>\n`, "{}", ":::", "a b", "c", "-n", "$x"}, []string{"--", "printf", `<%s>\n`, "{}", ":::", "a b", "c", "-n", "$x"}, 0},
		"all combinations": {"", []string{"echo {2}-{1}={}", ":::", "a", "b c", ":::", "1", "2", "3"}, []string{"--each", "echo {2}-{1}={}", ":::", "a", "b c", ":::", "1", "2", "3"}, 0},
		"linked":           {"", []string{"echo {}", ":::", "a", "b", "c", ":::+", "1", "2", ":::", "x", "y"}, []string{"--each", "echo {}", ":::", "a", "b", "c", ":::+", "1", "2", ":::", "x", "y"}, 0},
		"from the end":     {"", []string{"echo {-1}{1/.}", ":::", "a/b.c", ":::", "1"}, []string{"--each", "echo {-1}{1/.}", ":::", "a/b.c", ":::", "1"}, 0},
		"null":             {"a b\x00c\nd\x00e\x00", []string{"-0", "-q", "printf", `<%s>\n`, "{}"}, []string{"-0", "--", "printf", `<%s>\n`, "{}"}, 0},
		"columns":          {"a\tb c\td\ne\t\tf\n", []string{"--colsep", `\t`, "echo {3},{2},{1}"}, []string{"--delimiter", `\t`, "--each", "echo {3},{2},{1}"}, 0},
		"a header":         {"a\tb\n1\t2 3\n4\t\n", []string{"--colsep", `\t`, "--header", ":", "-q", "printf", `%s|%s\n`, "{b}", "{a}"}, []string{"--format", "tsv", "--", "printf", `%s|%s\n`, "{b}", "{a}"}, 0},
		"order":            {"3\n1\n2\n0\n", []string{"-j4", "sleep 0.{}; echo {}"}, []string{"-j4", "--batch-items", "1", "--shell", "sleep 0.{}; echo {}"}, 0},
		"tag":              {"2\n3\n", []string{"--tag", "seq {}"}, []string{"--tag", "--each", "seq {}"}, 0},
		"several lines":    {"2\n3\n0\n", []string{"seq {}"}, []string{"--each", "seq {}"}, 0},
		"a script":         {"a b\nc;d\n", []string{"echo {} | tr a-z A-Z"}, []string{"--shell", "echo {} | tr a-z A-Z"}, 0},
		"failures":         {"1\n2\n3\n", []string{"test {} -ne 2 && echo {}"}, []string{"--shell", "test {} -ne 2 && echo {}"}, starter.ExitSomeFailed},
		"retries":          {"1\n2\n", []string{"--retries", "3", "test -e p{} && echo {} || { touch p{}; false; }"}, []string{"--item-attempts", "3", "--shell", "test -e s{} && echo {} || {{ touch s{}; false; }}"}, 0},
		"timeout":          {"0\n30\n1\n", []string{"--timeout", "5", "test {} -lt 9 || sleep {}; echo {}"}, []string{"--call-timeout", "5s", "--attempts", "1", "--shell", "test {} -lt 9 || sleep {}; echo {}"}, starter.ExitSomeFailed},
		"no output":        {"a\nb\n", []string{"true"}, []string{"--each", "true"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ours, theirs := []string{"run"}, []string{}
			if c.in != "" {
				b.write("in", c.in)
				ours, theirs = append(ours, "in"), append(theirs, "-a", "in")
			}
			want := b.parallel(append(theirs, c.parallel...)...)
			require.Equal(t, want, b.stint(append(ours, c.stint...)...).exits(c.exit).stdout.String())
		})
	}
}

// E4: The commands of a dry run, pasted into a shell, do what the job would do.
func TestEach_DryRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a b\n'$x' \"\n-n;\n")
	for _, given := range [][]string{{"--each", `printf '<%s>\n' {} {#}`}, {"--shell", `printf '<%s>\n' {} "{#}" | cat`}} {
		printed := b.stint(append([]string{"run", "--dry-run", "in.txt"}, given...)...).exits(starter.ExitOK).stdout.String()
		pasted, err := exec.Command("sh", "-c", printed).Output()
		require.NoError(t, err)
		require.Equal(t, b.stint(append([]string{"run", "in.txt"}, given...)...).exits(starter.ExitOK).stdout.String(), string(pasted))
	}
	c := b.startWith(strings.NewReader(numbers(300)), "run", "--dry-run", "--each", "rm", "-").exits(starter.ExitOK)
	require.Equal(t, 100, strings.Count(c.stdout.String(), "\n"))
	require.Contains(t, c.stderr.String(), "these are 100 of 300 commands")
	b.write("in.csv", "a\n1\n")
	require.Contains(t, b.stint("run", "--dry-run", "in.csv", "--each", "rm {b}").exits(starter.ExitOK).stdout.String(), `# item 0: {b}: the item has no field "b"`)
	b.refused(starter.ExitUsage, []string{"run", "--dry-run", "in.txt", "--exec", "cat"}, "--dry-run prints the command or the request of each item")
}

// An item whose command has succeeded, and whose result is refused, has failed: its file is not there.
func TestEach_RefusedResultLeavesNoFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in", "a\nb\n")
	for name, c := range map[string]struct{ args, script, says string }{
		"no text":   {"--result json", `printf '\377'`, "the command's output is not UTF-8"},
		"too large": {"--result record", `head -c 9000000 /dev/zero | tr '\0' '"'`, "the limit is"},
	} {
		args := append([]string{"run", "in", "--fresh", "--skip-if-exists", "out-{}", "-o", "out", "--shell", `echo > {out}; test {} = b || ` + c.script}, strings.Fields(c.args)...)
		b.stint(args...).exits(starter.ExitSomeFailed)
		require.Contains(t, b.read("out.errors.jsonl"), c.says, name)
		found, err := filepath.Glob(b.path("*out-*"))
		require.NoError(t, err)
		require.Equal(t, []string{b.path("out-b")}, found, name)
		require.NoError(t, os.Remove(b.path("out-b")))
	}
}

// A dry run counts the items whose file is there, also behind those whose commands it prints, and prints no command of
// them.
func TestEach_DryRunCountsWhatIsSkipped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(300))
	for n := range 200 {
		b.write(fmt.Sprintf("made/out-%07d", 2*n), "")
	}
	for _, dir := range []string{"", "made"} {
		c := b.stint("run", "in.txt", "--dry-run", "--dir", dir, "--skip-if-exists", filepath.Join(strings.TrimPrefix("made", dir), "out-{}"), "--each", "touch {out}").exits(starter.ExitOK)
		require.Equal(t, 100, strings.Count(c.stdout.String(), "\n"))
		require.NotRegexp(t, `[02468]\n`, c.stdout.String())
		require.Equal(t, "these are 100 of 150 commands\n150 of 300 items would be skipped, because the file is there\n", c.stderr.String())
	}
	require.Contains(t, b.stint("run", "in.txt", "--dry-run", "--skip-if-exists", "none-{}", "--each", "touch {out}").exits(starter.ExitOK).stderr.String(), "\n0 of 300 items would be skipped")
}

// --joblog has parallel's columns, a line for each command that has ended.
func TestEach_JobLog(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in", "1\n2\n3\n")
	const script = `test {} != 2 && echo {} || kill -9 $$`
	b.parallel("-a", "in", "--joblog", "theirs", script)
	b.stint("run", "in", "--joblog", "ours", "--shell", script).exits(starter.ExitSomeFailed)
	columns := func(file string) (all []string) {
		for line := range strings.Lines(b.read(file)) {
			c := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 9)
			all = append(all, strings.Join([]string{c[0], c[1], c[5], c[6], c[7]}, "\t")) // the others are times and commands
		}
		slices.Sort(all)
		return all
	}
	require.Equal(t, columns("theirs"), columns("ours"))
	require.Regexp(t, `\n1\t:\t\d+\.\d{3}\t\d+\.\d{3}\t0\t2\t0\t0\tsh -c '.*' sh 1 1\n`, b.read("ours"))
}

// E4: A file that is there already is not made again, and one that a command has half written never has its name.
func TestEach_SkipIfExists(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in", "a\nb\nc\n")
	run := []string{"run", "in", "--fresh", "--skip-if-exists", "out-{}.txt", "--joblog", "log", "--shell", `echo {} > {out}; test {} != b || test -e fixed`}
	b.stint(run...).exits(starter.ExitSomeFailed)
	found, err := filepath.Glob(b.path("*out-*"))
	require.NoError(t, err)
	require.Equal(t, []string{b.path("out-a.txt"), b.path("out-c.txt")}, found, "nothing half written, under no name")
	b.write("fixed", "")
	c := b.stint(append(run, "--report", "report.json")...).exits(starter.ExitOK)
	require.Equal(t, "b\n", b.read("out-b.txt"))
	require.Equal(t, 1+3+1, b.lines("log"), "the second run has run one command")
	var report job.Report
	require.NoError(t, json.Unmarshal([]byte(b.read("report.json")), &report))
	require.Equal(t, []int64{3, 2}, []int64{report.OK, report.Skipped})
	require.Contains(t, c.stderr.String(), "2 items skipped, because the file was there")
	b.stint("run", "in", "--skip-if-exists", "new-{}", "--each", "test -n {out}").exits(starter.ExitSomeFailed)
	require.Contains(t, b.read("stint.errors.jsonl"), "exit 0, and the command has not written .stint-")
	b.refused(starter.ExitUsage, []string{"run", "in", "--skip-if-exists", "out.txt", "--each", "true"}, `"out.txt" has no placeholder`)
}

// The names of files are items, whatever is in them and however they are called.
func TestEach_Names(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, name := range []string{"d/a b.bin", "d/line\nend.gz", "d/é", "d/sub/x.parquet"} {
		b.write(name, "PAR1\x00\xff")
	}
	c := b.stint("run", "--items", "names", "d", "--result", "json", "--shell", `printf "%s|" {/}; wc -c < {}`).exits(starter.ExitOK)
	require.Equal(t, `"a b.bin|6\n"`+"\n"+`"line\nend.gz|6\n"`+"\n"+`"x.parquet|6\n"`+"\n"+`"é|6\n"`+"\n", c.stdout.String())
	require.Contains(t, c.stderr.String(), "4 items ok")
	b.stint("run", "--items", "names", "d/*", "--each", "test -e {}x").exits(starter.ExitSomeFailed)
	redrive := regexp.MustCompile(`stint (redrive \S+)`).FindStringSubmatch(b.stint("run", "--items", "names", "d/*", "--fresh", "--each", "test -e {}x").exits(starter.ExitSomeFailed).stderr.String())
	b.stint(append(strings.Fields(redrive[1]), "--each", "test -e {}")...).exits(starter.ExitOK)
	require.Contains(t, b.stint("plan", "--items", "names", "d").exits(starter.ExitOK).stdout.String(), "4 items")
	b.refused(starter.ExitUsage, []string{"run", "--items", "names", "-", "--each", "true"}, "the standard input has no name")
	b.refused(starter.ExitUsage, []string{"run", "--items", "names", "--format", "csv", "d", "--each", "true"}, "the files are not read")
	b.refused(starter.ExitUsage, []string{"run", "--items", "lines", "d", "--each", "true"}, "use records or names")
}

// What cannot be meant is refused before anything starts, with what to do.
func TestEach_Refused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "1\n")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"in.txt", "--each", "true | cat"}, "or use --shell"},
		{[]string{"in.txt", "--each", "echo {"}, "has no } behind it"},
		{[]string{"in.txt", "--each", "no-such-program-here {}"}, "there is no such program in $PATH"},
		{[]string{"in.txt", "--shell", "cat <<X\n{}\nX"}, "here-document"},
		{[]string{"in.txt", "--each", "true", "--shell", "true"}, "either --each or --shell"},
		{[]string{"in.txt", "--each", "true", "--result", "xml"}, "use lines, json, record, none"},
		{[]string{"in.txt", "--each", "true", "--stdin", "yes"}, "use none or item"},
		{[]string{"in.txt", "--"}, "there is no command after --"},
		{[]string{"--each", "true", ":::"}, "there is no value after :::"},
		{[]string{"--each", "true", ":::+", "a"}, ":::+ links a list to the one before"},
		{[]string{"--each", "true", ":::", "a", "::::", "b"}, ":::: is not known: name the file as an input"},
		{[]string{"--each", "true", ":::", "\xff"}, "is not UTF-8"},
		{[]string{"in.txt", "--each", "true", ":::", "a"}, "the items are the values after :::"},
		{[]string{"--exec", "cat", ":::", "a"}, "is for a command for each item"},
		{[]string{"--each", "true", "--format", "csv", ":::", "a"}, "--format says how inputs are read"},
		{[]string{"in.txt", "-0", "--format", "csv", "--each", "true"}, "--null: the format is csv"},
		{[]string{"in.txt", "--exec", "echo {}"}, `--each "echo '{}'"`},
	} {
		b.refused(starter.ExitUsage, append([]string{"run"}, c.args...), c.says)
	}
}

// E3: A result may have all that is known of a command, and other exit statuses than 0 may be good ones.
func TestEach_Record(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.csv", "name,n\nAnn,3\n\"B, C\",1\n,0\n")
	b.stint("run", "in.csv", "-o", "out.jsonl", "--result", "record", "--ok-exit", "0,3", "--shell", `echo {name}; echo e{n} >&2; exit {n}`).exits(starter.ExitSomeFailed)
	type record struct {
		Item           map[string]string
		Stdout, Stderr string
		Exit           int
		Seconds        float64
	}
	var got []record
	for line := range strings.Lines(b.read("out.jsonl")) {
		var r record
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		require.Positive(t, r.Seconds)
		r.Seconds = 0
		got = append(got, r)
	}
	require.Equal(t, []record{
		{map[string]string{"name": "Ann", "n": "3"}, "Ann\n", "e3\n", 3, 0}, {map[string]string{"name": "", "n": "0"}, "\n", "e0\n", 0, 0},
	}, got)
	require.Contains(t, b.read("out.jsonl.errors.jsonl"), `"kind":"exit"`)
}

// The first failure ends the job, as with --halt soon,fail=1.
func TestEach_Halt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in", numbers(1000))
	const script = `test {} -lt 20 && echo {}`
	b.parallel("-a", "in", "-j1", "--halt", "soon,fail=1", "--joblog", "theirs", script)
	c := b.stint("run", "in", "-j1", "--on-error", "stop", "--joblog", "ours", "--shell", script).exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), "exit 1")
	require.Less(t, b.lines("theirs"), 1001)
	require.Less(t, b.lines("ours"), 1001, "what had not been handed to the slot is not run")
}

// Lists of values run on, killed or not, and with other options it is another job.
func TestEach_ListsAreTheJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := []string{"run", "-q", "-o", "out", "--each", "echo {}"}
	b.stint(append(run, ":::", "a", "b")...).exits(starter.ExitOK)
	b.stint(append(run, ":::", "a", "b", ":::", "c")...).exits(starter.ExitOK)
	require.Equal(t, "a c\nb c\n", b.read("out"))
	b.stint(append(slices.Insert(slices.Clone(run), 2, "--tag"), ":::", "a")...).exits(starter.ExitOK)
	require.Equal(t, "a\ta\n", b.read("out"))
	var names []string
	for line := range strings.Lines(b.stint("run", "--json", "--each", "echo", ":::", "x").exits(starter.ExitOK).stderr.String()) {
		var report struct{ Job string }
		require.NoError(t, json.Unmarshal([]byte(line), &report))
		names = append(names, report.Job)
	}
	require.NotEmpty(t, names)

	c := b.stint("run", "-o", "again", "--tag", "--shell", "test -e ok && echo {}", ":::", "a", ":::", "b").exits(starter.ExitSomeFailed)
	again := regexp.MustCompile(`stint (redrive .*)`).FindStringSubmatch(c.stderr.String())
	require.NotNil(t, again, c.stderr.String())
	b.write("ok", "")
	pasted, err := exec.Command("sh", "-c", `for w in `+again[1]+`; do echo "$w"; done`).Output()
	require.NoError(t, err)
	b.stint(strings.Split(strings.TrimSpace(string(pasted)), "\n")...).exits(starter.ExitOK)
	require.Equal(t, "a b\ta b\n", b.read("again"))
}

// A command for each item works wherever a handler does: on a cluster, in a feed, in a loop, in the stages of a pipeline.
func TestEach_Everywhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.worker("p", "--each", "echo '<{}>'")
	b.write("in.txt", "a b\nc\n")
	b.stint("start", "--pool", "p", "--name", "files", "in.txt", "-o", "out.txt", "--wait").exits(starter.ExitOK)
	require.Equal(t, "<a b>\n<c>\n", b.read("out.txt"))

	b.stint("start", "--feed", "--pool", "p", "--name", "feed", "--format", "text", "-o", "fed/").exits(starter.ExitOK)
	require.Equal(t, `{"index":0,"item":0,"result":"<x y>"}`+"\n", b.stint("feed", "call", "feed", "--json", "x y").exits(starter.ExitOK).stdout.String())
	b.stint("feed", "close", "feed", "--wait").exits(starter.ExitOK)

	b.stint("loop", "--name", "loop", "--pool", "p", "--every", "20ms", "-o", "ticks/").exits(starter.ExitOK)
	eventually(t, "some ticks", func() bool { r := b.status("loop"); return r.Loop != nil && r.Loop.Ticks > 5 })
	b.stint("stop", "loop", "--wait").exits(starter.ExitOK)
	require.Regexp(t, `^<{"slot":0,"tick":0,.*}>\n`, b.stint("results", "loop").exits(starter.ExitOK).stdout.String())

	b.write("job.yaml", `
input: in.txt
output: staged.txt
stages: [{name: up, pool: up}, {name: mark, pool: mark}]
pools:
  up: {shell: "echo {} | tr a-z A-Z"}
  mark: {each: "sed s/^/{#}:/", stdin: item}
`)
	b.stint("run", "-f", "job.yaml").exits(starter.ExitOK)
	require.Equal(t, "1:A B\n2:C\n", b.read("staged.txt"))
}
