package starter_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

func TestRun_GivesWhatTheFilterGives(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 10, 2000} {
		for _, batch := range []string{"1", "7", "1000", "automatic"} {
			lines := n
			if batch == "1" {
				lines = min(n, 200) // thousands of batches are for a test of the workflows: TestLimits_OnARealServer
			}
			t.Run(fmt.Sprintf("%d lines in batches of %s", lines, batch), func(t *testing.T) {
				t.Parallel()
				requireUpper(t, records(lines), batch)
			})
		}
	}
}

func TestRun_GivesWhatTheFilterGivesOfAMillionLines(t *testing.T) {
	t.Parallel()
	input := records(1_000_000)
	for _, batch := range []string{"10000", "automatic"} {
		t.Run("batches of "+batch, func(t *testing.T) {
			t.Parallel()
			requireUpper(t, input, batch)
		})
	}
}

// requireUpper runs tr over the input and requires that the output is what tr itself makes of it.
func requireUpper(t *testing.T, input, batch string) {
	t.Helper()
	b := setup(t)
	b.write("in.jsonl", input)
	args := []string{"run", "--exec", "tr a-z A-Z", "in.jsonl", "-o", "out.jsonl", "--report", "report.json"}
	if batch != "automatic" {
		args = append(args, "--batch-items", batch)
	}
	b.stint(args...).exits(starter.ExitOK)
	want := upper(t, input)
	requireSame(t, want, b.read("out.jsonl"))
	require.NoFileExists(t, b.path("out.jsonl.errors.jsonl"))
	r := b.report("report.json")
	require.Equal(t, job.Completed, r.State)
	require.EqualValues(t, strings.Count(input, "\n"), r.Planned)
	require.Equal(t, r.Planned, r.OK)
	require.EqualValues(t, len(want), r.Output.Bytes)
	require.Equal(t, sum(want), r.Output.Checksum)
}

func TestRun_PrintsResultsToStdout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\nb\nbad\nc\n")
	c := b.stint("run", "--exec", "sed /bad/d", "in.txt", "--backoff", "1ms").exits(starter.ExitSomeFailed)
	require.Equal(t, "a\nb\nc\n", c.stdout.String())
	require.Contains(t, c.stderr.String(), "3 items ok, 1 failed")
	require.Len(t, b.failures("stint.errors.jsonl"), 1)
}

func TestRun_PrintsNothingBeforeTheEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(50))
	filter := b.script("filter", `read first; [ $first != 0000049 ] || while [ ! -e $BOX/gate ]; do sleep 0.02; done; echo $first`)
	c := b.start("run", "--exec", filter, "in.txt", "--batch-items", "1", "--json")
	c.says(`"ok":49,`)
	require.Empty(t, c.stdout.String())
	b.open()
	c.exits(starter.ExitOK)
	requireSame(t, numbers(50), c.stdout.String())
}

func TestRun_Formats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, input, want string }{
		{"jsonl", "in.jsonl", "{\"b\": 1, \"a\":2}\n\n[1]\n\"x\"", "{\"b\": 1, \"a\":2}\n[1]\n\"x\"\n"},
		{"text", "in.txt", "plain\n\n \"quoted\\\n<&>\n", "plain\n\n \"quoted\\\n<&>\n"},
		{"text that is not UTF-8", "in.log", "\xff\xf0\n\x00\n", "\xff\xf0\n\x00\n"},
		{"text with CRLF", "in.txt", "a\r\nb\r\n", "a\r\nb\r\n"},
		{"csv", "in.csv", "name,note\nA,x\n", `{"name":"A","note":"x"}` + "\n"},
		{
			"csv with mark, CRLF and quoted line ends", "in.csv",
			"\xef\xbb\xbfz,\"a,b\"\r\n\"one\r\ntwo\",\"say \"\"hi\"\"\"\r\n3,4",
			`{"z":"one\r\ntwo","a,b":"say \"hi\""}` + "\n" + `{"z":"3","a,b":"4"}` + "\n",
		},
		{"csv with a header only", "in.csv", "a,b\n", ""},
		{"tsv", "in.tsv", "name\tnote\nA\t\"x\n\t\n", `{"name":"A","note":"\"x"}` + "\n" + `{"name":"","note":""}` + "\n"},
		{"json array", "in.json", "[\n  {\n    \"a\": 1\n  },\n  [1, 2],\n  \"x\"\n]\n", "{\"a\":1}\n[1, 2]\n\"x\"\n"},
		{"arrays on lines", "in.json", "[1,2]\n[3]\n", "[1,2]\n[3]\n"},
		{"json values", "in.json", "{\n  \"a\": 1\n}\n{\n  \"a\": 2\n}\n", "{\"a\":1}\n{\"a\":2}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write(c.file, c.input)
			b.stint("run", "--exec", "cat", c.file, "-o", "out").exits(starter.ExitOK)
			require.Equal(t, c.want, b.read("out"))
		})
	}
}

func TestRun_FormatFlagOutranksTheExtension(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("data", "a,b\n1,2\n")
	b.stint("run", "--exec", "cat", "data", "-o", "out", "--format", "csv").exits(starter.ExitOK)
	require.Equal(t, `{"a":"1","b":"2"}`+"\n", b.read("out"))
	b.stint("run", "--exec", "cat", "data", "-o", "out", "--format", "text").exits(starter.ExitOK)
	require.Equal(t, "a,b\n1,2\n", b.read("out"))
}

// 14.13: what a first user tries with CSV: another delimiter, and a table as the output.
func TestRun_Tables(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.csv", "id;note\n1;\"a;b\"\n2;c,d\n")
	b.stint("run", "--exec", "cat", "in.csv", "--delimiter", ";", "-o", "out.csv").exits(starter.ExitOK)
	require.Equal(t, "id,note\n1,a;b\n2,\"c,d\"\n", b.read("out.csv"))
	b.write("job.yaml", "input: in.csv\noutput: out.tsv\ndelimiter: ;\ncolumns: [note]\nexec: cat\n")
	b.stint("run", "-f", "job.yaml").exits(starter.ExitOK)
	require.Equal(t, "note\na;b\nc,d\n", b.read("out.tsv"))

	b.write("in.txt", "a\tb\n1\t2\n")
	b.stint("run", "--exec", "cat", "in.txt", "--format", "csv", "--delimiter", `\t`, "-o", "tabs.jsonl").exits(starter.ExitOK)
	require.Equal(t, `{"a":"1","b":"2"}`+"\n", b.read("tabs.jsonl"))
	b.refused(starter.ExitFailed, []string{"run", "--exec", "cat", "in.txt", "--delimiter", ";", "-o", "out.txt"}, `delimiter ";"`, "no input is csv", "--format csv")
	b.refused(starter.ExitUsage, []string{"run", "--exec", "cat", "in.csv", "--delimiter", "::", "-o", "out.txt"}, `delimiter "::"`, "one ASCII character")
	b.refused(starter.ExitUsage, []string{"run", "--exec", "cat", "in.csv", "--columns", "id", "-o", "out.txt"}, "columns", "ends in .csv")
}

func TestRun_CompressedInputs(t *testing.T) {
	t.Parallel()
	for _, batch := range []string{"0", "700"} {
		t.Run("batches of "+batch, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			first, second := records(2000), records(3000)
			b.write("a.jsonl.gz", gzipped(t, first))
			b.write("b.jsonl.zst", zstandard(t, second))
			b.stint("run", "--exec", "tr a-z A-Z", "a.jsonl.gz", "b.jsonl.zst", "-o", "out.jsonl", "--batch-items", batch).exits(starter.ExitOK)
			requireSame(t, upper(t, first+second), b.read("out.jsonl"))
		})
	}
}

func TestRun_SeveralInputsInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("last.txt", "last\n")
	b.write("dir/2.txt", "dir 2\n")
	b.write("dir/1/x.txt", "dir 1\n")
	b.write("dir/.hidden.txt", "hidden\n")
	b.write("globs/b.txt", "glob b")
	b.write("globs/a.txt", "glob a\n")
	b.write("globs/c.csv", "not this\n")
	c := b.startWith(strings.NewReader("stdin 1\nstdin 2"), "run", "--exec", "tr a-z A-Z",
		"globs/*.txt", "-", "dir", "last.txt", "last.txt", "-o", "out.txt")
	c.exits(starter.ExitOK)
	require.Equal(t, "GLOB A\nGLOB B\nSTDIN 1\nSTDIN 2\nDIR 1\nDIR 2\nLAST\nLAST\n", b.read("out.txt"))
}

func TestRun_StandardInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	input := records(3000)
	b.startWith(strings.NewReader(input), "run", "--exec", "tr a-z A-Z", "-", "--format", "jsonl", "-o", "out.jsonl").exits(starter.ExitOK)
	requireSame(t, upper(t, input), b.read("out.jsonl"))
	c := b.startWith(strings.NewReader("other\n"), "run", "--exec", "tr a-z A-Z", "-", "-q")
	c.exits(starter.ExitOK)
	require.Equal(t, "OTHER\n", c.stdout.String())
}

func TestRun_OutputDirectoryKeepsParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	input := records(2000)
	b.write("in.jsonl", input)
	b.stint("run", "--exec", "tr a-z A-Z", "in.jsonl", "-o", "out/", "--batch-items", "300").exits(starter.ExitOK)
	type part struct {
		Part                         string
		First, Items, Results, Bytes int64
		Checksum                     string
	}
	var all strings.Builder
	var next int64
	dec := json.NewDecoder(strings.NewReader(b.read("out/manifest.jsonl")))
	listed := map[string]bool{}
	for dec.More() {
		var p part
		require.NoError(t, dec.Decode(&p))
		text := b.read(filepath.Join("out", p.Part))
		require.Equal(t, next, p.First)
		require.EqualValues(t, strings.Count(text, "\n"), p.Items)
		require.Equal(t, p.Items, p.Results)
		require.EqualValues(t, len(text), p.Bytes)
		require.Equal(t, sum(text), p.Checksum)
		next += p.Items
		all.WriteString(text)
		listed[b.path(filepath.Join("out", p.Part))] = true
	}
	require.EqualValues(t, 2000, next)
	requireSame(t, upper(t, input), all.String())
	stray, err := filepath.Glob(b.path("out/*/parts/*"))
	require.NoError(t, err)
	for _, path := range stray {
		require.True(t, listed[path], "a stray part: %s", path)
	}
}

func TestRun_ErrorsFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\nbad 1\nb\nbad 2\n")
	line := []string{"run", "--exec", "sed /bad/d", "in.txt", "-o", "out.txt", "--errors", "failed.jsonl", "--backoff", "1ms"}
	c := b.stint(line...).exits(starter.ExitSomeFailed)
	require.Contains(t, c.stderr.String(), "errors: failed.jsonl\n", "it says where they are")
	failures := b.failures("failed.jsonl")
	require.Len(t, failures, 2)
	require.EqualValues(t, 1, failures[0].Item)
	require.EqualValues(t, 3, failures[1].Item)
	require.JSONEq(t, `"bad 2"`, string(failures[1].Input))
	require.NoFileExists(t, b.path("out.txt.errors.jsonl"))

	b.write("in.txt", "a\nb\n")
	b.stint(line...).exits(starter.ExitOK)
	require.NoFileExists(t, b.path("failed.jsonl"), "the file of the earlier run says nothing about this one")
}

func TestRun_JSONReports(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(100))
	c := b.stint("run", "--exec", "cat", "in.txt", "-o", "out.txt", "--json").exits(starter.ExitOK)
	require.Empty(t, c.stdout.String())
	var last job.Report
	for line := range strings.Lines(c.stderr.String()) {
		last = job.Report{}
		require.NoError(t, json.Unmarshal([]byte(line), &last), line)
	}
	require.Equal(t, job.Completed, last.State)
	require.EqualValues(t, 100, last.OK)
	require.Equal(t, b.path("out.txt"), last.Output.Location)
}

func TestRun_QuietSaysNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	c := b.stint("run", "--exec", "cat", "in.txt", "-q").exits(starter.ExitOK)
	require.Equal(t, "a\n", c.stdout.String())
	require.Empty(t, c.stderr.String())
}

func TestRun_AgainAfterCompletionStartsAfresh(t *testing.T) {
	t.Parallel()
	b := setup(t)
	filter := b.script("filter", `echo run >> $BOX/witness; tr a-z A-Z`)
	for i, input := range []string{"one\n", "one\n", "three\n", ""} {
		b.write("in.txt", input)
		c := b.stint("run", "--exec", filter, "in.txt", "-o", "out.txt").exits(starter.ExitOK)
		require.Equal(t, strings.ToUpper(input), b.read("out.txt"))
		require.NotContains(t, c.stderr.String(), "continuing")
		require.Equal(t, min(i+1, 3), b.lines("witness"), "each run calls the filter, unless there is nothing to do")
	}
}

func TestRun_OtherJobsOfTheStateAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	b.stint("run", "--exec", "tr a-z A-Z", "in.txt", "-o", "one.txt").exits(starter.ExitOK)
	b.stint("run", "--exec", "tr a-z B-ZA", "in.txt", "-o", "two.txt").exits(starter.ExitOK)
	require.Equal(t, "A\n", b.read("one.txt"))
	require.Equal(t, "B\n", b.read("two.txt"))
}

func TestRun_SecondProcessOnTheStateIsTold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	filter := b.gated()
	first := b.start("run", "--exec", filter, "in.txt", "-o", "out.txt")
	eventually(t, "the filter", func() bool { return b.lines("started") > 0 })
	second := b.stint("run", "--exec", filter, "in.txt", "-o", "out.txt").exits(starter.ExitFailed)
	require.Contains(t, second.stderr.String(), "process "+itoa(os.Getpid()))
	b.open()
	first.exits(starter.ExitOK)
	require.Equal(t, "a\n", b.read("out.txt"))
}

// A job that failed while calls were in hand leaves a cancellation behind that the server would deliver to a
// worker that is gone: it does not hold up the end of later runs of the state. Nor does a process that was killed.
func TestRun_LaterRunsEndAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(500))
	b.spawn("run", "--exec", b.script("fails", `read line; [ $line = 0000000 ] || sleep 1; exit 1`), "in.txt", "-o", "one.txt",
		"--on-error", "stop", "--backoff", "1ms", "--slots", "4", "--batch-items", "1").exits(starter.ExitFailed)
	killed := b.spawn("run", "--exec", b.script("gated", `echo >> $BOX/started; sleep 60; exec cat`), "in.txt", "-o", "two.txt", "--batch-items", "1")
	eventually(t, "a call", func() bool { return b.lines("started") > 0 })
	killed.kill()
	for range 2 {
		b.spawn("run", "--exec", "cat", "in.txt", "-o", "three.txt", "--report", "report.json").exits(starter.ExitOK)
		require.Less(t, time.Since(*b.report("report.json").Ended), time.Minute, "from the job's end to the process's")
	}
}

// Many small files are as few batches as one file of their size.
func TestRun_SmallFilesShareBatches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 500 {
		b.write(fmt.Sprintf("dir/%03d.txt", i), numbers(20))
	}
	b.write("one.txt", strings.Repeat(numbers(20), 500))
	batches := func(input string) int64 {
		b.stint("run", "--exec", "cat", input, "-o", "out.txt", "--report", "report.json", "-j", "2", "--batch-items", "500").exits(starter.ExitOK)
		requireSame(t, b.read("one.txt"), b.read("out.txt"))
		return b.report("report.json").Batches
	}
	require.LessOrEqual(t, batches("dir"), 2*batches("one.txt"))
}
