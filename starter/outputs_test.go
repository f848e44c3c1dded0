package starter_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// TestFlatten_B11_Run: a filter answers items with lists, and the output has a line for each element; what fails is run
// again, and the lists go to its place.
func TestFlatten_B11_Run(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "1 2\n\nnone\n[x\n3\n")
	b.write("rules", `s/^none$/[]/;t;s/ /, /g;s/.*/[&]/`)
	filter := b.script("lists", `sed -f $BOX/rules`)
	b.write("in.txt", "1 2\nnone\nx\n3\n")
	c := b.stint("run", "--exec", filter, "in.txt", "-o", "out.jsonl", "--flatten", "--name", "lists", "--report", "report.json").exits(starter.ExitSomeFailed)
	require.Contains(t, c.stderr.String(), "3 result lines")
	require.Equal(t, "1\n2\n3\n", b.read("out.jsonl"))
	report := b.report("report.json")
	require.Equal(t, []int64{3, 3, 1, 0}, []int64{report.Lines, report.OK, report.Failed, report.Dropped})
	failures := b.failures("out.jsonl.errors.jsonl")
	require.Len(t, failures, 1)
	require.Equal(t, job.KindInvalid, failures[0].Kind)
	require.Contains(t, failures[0].Error.Message, "answer with a JSON list")

	b.write("rules", `s/.*/["again", {"was":"&"}]/`)
	b.stint("redrive", "lists", "--exec", filter).exits(starter.ExitOK)
	require.Equal(t, "1\n2\n\"again\"\n{\"was\":\"x\"}\n3\n", b.read("out.jsonl"))
}

// TestFlatten_Refused: only jobs of files have lists, splits and files of dropped items.
func TestFlatten_Refused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.jsonl", "{}\n")
	b.refused(starter.ExitUsage, []string{"start", "--feed", "--pool", "p", "-o", "out/", "--flatten"}, "flatten is for jobs of files only")
	b.refused(starter.ExitUsage, []string{"run", "--exec", "cat", "in.jsonl", "--split", "kind"}, "split kind: results are split into files: name an output with {}")
	b.refused(starter.ExitUsage, []string{"run", "--exec", "cat", "in.jsonl", "-o", "out.jsonl", "--split", "kind"}, "need one {} in the file's name")
	b.refused(starter.ExitUsage, []string{"run", "--exec", "cat", "in.jsonl", "-o", "{}.jsonl", "--split", "kind"}, "in.jsonl, could also be a file of the output")
	b.write("job.yaml", "exec: cat\ninput: in.jsonl\noutput: a\noutputs: {results: b}\n")
	b.refused(starter.ExitUsage, []string{"run", "-f", "job.yaml"}, "line 4", "results is given on line 3, too, as output")
	b.write("job.yaml", "exec: cat\ninput: in.jsonl\noutputs:\n  results: b\n  failed: c\n")
	b.refused(starter.ExitUsage, []string{"run", "-f", "job.yaml"}, "line 5", `unknown key "failed" of outputs: the keys are results, errors and dropped`)
	b.write("job.yaml", "exec: cat\ninput: in.jsonl\noutputs: [b]\n")
	b.refused(starter.ExitUsage, []string{"run", "-f", "job.yaml"}, "line 3", "outputs: expected a map")
	b.write("job.yaml", "exec: cat\ninput: in.jsonl\noutputs: {results: b, errors: b}\n")
	b.refused(starter.ExitUsage, []string{"run", "-f", "job.yaml"}, "errors", "is also the spec's Output")
}

const splitInput = `{"kind":"a","n":1}
{"kind":"b/c","n":2}
{"n":3}
{"kind":"a","n":4}
{"kind":"fails","n":5}
`

// TestSplit_Run: results go to a file for each value, failed items to their own; the same command starts afresh and
// leaves no file of before; a redrive adds to the files, and 'results' prints everything in order.
func TestSplit_Run(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.jsonl", splitInput)
	b.write("rules", "/fails/d\n")
	filter := b.script("filter", `sed -f $BOX/rules`)
	args := []string{"run", "--exec", filter, "in.jsonl", "-o", "out/", "--split", ".kind", "--name", "split", "--call-items", "1", "--backoff", "1ms"}
	c := b.stint(args...).exits(starter.ExitSomeFailed)
	require.Contains(t, c.stderr.String(), "out/{}.jsonl, 3 files by kind")
	require.Equal(t, "{\"kind\":\"a\",\"n\":1}\n{\"kind\":\"a\",\"n\":4}\n", b.read("out/a.jsonl"))
	require.Equal(t, "{\"kind\":\"b/c\",\"n\":2}\n", b.read("out/b%2Fc.jsonl"))
	require.Equal(t, "{\"n\":3}\n", b.read("out/_none.jsonl"))
	require.Equal(t, []int64{4}, b.failedItems("out/_errors.jsonl"))

	b.write("rules", "")
	b.stint("redrive", "split", "--exec", filter).exits(starter.ExitOK)
	require.Equal(t, "{\"kind\":\"fails\",\"n\":5}\n", b.read("out/fails.jsonl"))
	require.Equal(t, "{\"kind\":\"b/c\",\"n\":2}\n", b.read("out/b%2Fc.jsonl"))
	b.requireFiles("out", "_none.jsonl", "a.jsonl", "b%2Fc.jsonl", "fails.jsonl")

	b.write("in.jsonl", "{\"kind\":\"a\"}\n{\"kind\":\"new\"}\n")
	b.stint(args...).exits(starter.ExitOK)
	b.requireFiles("out", "a.jsonl", "new.jsonl")
}

func (b *box) requireFiles(dir string, want ...string) {
	b.t.Helper()
	entries, err := os.ReadDir(b.path(dir))
	require.NoError(b.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(b.t, want, names)
}

// TestOutputs_OnACluster: a job file says where results, failed and dropped items go; the results are split, a program
// drops items, and 'results' prints all in the order of the items.
func TestOutputs_OnACluster(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.jsonl", splitInput)
	b.write("job.yaml", `
name: sorted
pool: p
input: in.jsonl
split: kind
flatten: true
outputs:
  results: out/all-{}.jsonl
  errors: failed.jsonl
  dropped: dropped.jsonl
`)
	program := b.python("sorting", `
import stint
def call(items):
    results = []
    for item in items:
        if item["n"] == 3:
            results.append(stint.DROP)
        elif item["n"] == 5:
            results.append(ValueError("five"))
        else:
            results.append([item] * item["n"])
    return results
stint.serve(call)
`)
	b.worker("p", program...)
	b.stint("start", "-f", "job.yaml", "--wait").exits(starter.ExitSomeFailed)
	lines := strings.SplitAfter(splitInput, "\n")
	require.Equal(t, lines[0]+strings.Repeat(lines[3], 4), b.read("out/all-a.jsonl"))
	require.Equal(t, strings.Repeat(lines[1], 2), b.read("out/all-b%2Fc.jsonl"))
	require.Equal(t, lines[2], b.read("dropped.jsonl"))
	require.Equal(t, []int64{4}, b.failedItems("failed.jsonl"))
	require.Equal(t, lines[0]+strings.Repeat(lines[1], 2)+strings.Repeat(lines[3], 4), b.stint("results", "sorted").exits(starter.ExitOK).stdout.String())
	report := b.status("sorted")
	require.Equal(t, []int64{7, 4, 1, 1}, []int64{report.Lines, report.OK, report.Dropped, report.Failed})
	require.Equal(t, 2, report.Output.Files)
	require.Equal(t, b.path("dropped.jsonl"), report.Output.Dropped)
	c := b.stint("status", "sorted").exits(starter.ExitOK)
	require.Contains(t, c.stdout.String(), "out/all-{}.jsonl, 2 files by kind")
}

// splitFiles are the files of a split output of so many items, each with one of so many values, and a word.
func splitFiles(items, values int, word string) (input string, files map[string]string) {
	var all strings.Builder
	files = map[string]string{}
	for i := range items {
		name := fmt.Sprint("v", i*7919%values)
		line := fmt.Sprintf("{\"kind\":%q,\"n\":%d,\"word\":%q}\n", name, i, word)
		all.WriteString(line)
		files[name+".jsonl"] += line
	}
	return all.String(), files
}

// TestBrutal_SplitKilledBetweenFiles: a run is killed once it has published some of the files of a split output, which
// replace those of an earlier run. Each file is whole then, that of one run or the other, and the same command makes
// all of them right.
func TestBrutal_SplitKilledBetweenFiles(t *testing.T) {
	t.Parallel()
	killBetweenFiles(t, 3)
}

// TestChaos_Split is TestBrutal_SplitKilledBetweenFiles with many more kills.
func TestChaos_Split(t *testing.T) {
	t.Parallel()
	chaotic(t, func(t *testing.T) { killBetweenFiles(t, 20) })
}

// killBetweenFiles kills so many runs, each at a random one of the files that it publishes.
func killBetweenFiles(t *testing.T, kills int) {
	t.Helper()
	b := setup(t)
	random := seed(t)
	const items, values = 4000, 400
	line := []string{"run", "--exec", "cat", "in.jsonl", "-o", "out/", "--split", "kind", "--quiet"}
	input, before := splitFiles(items, values+50, "first")
	b.write("in.jsonl", input)
	b.spawn(line...).exits(starter.ExitOK)
	between := 0
	for round := range kills {
		input, after := splitFiles(items, values+random.IntN(50), fmt.Sprint("word", round))
		b.write("in.jsonl", input)
		published := b.path(fmt.Sprintf("out/v%d.jsonl", random.IntN(values)))
		old, err := os.Stat(published)
		require.NoError(t, err)
		p := b.spawn(append(line, "--fresh")...)
		for p.running() { // a busy wait, since a file is published in less than the time between two looks
			if now, err := os.Stat(published); err == nil && !os.SameFile(old, now) {
				break
			}
		}
		p.kill()
		if b.requireEither(before, after) {
			between++
		}
		b.spawn(line...).exits(starter.ExitOK)
		require.False(t, b.requireEither(after, after))
		require.Len(t, b.filesIn("out"), len(after), "nothing else is left")
		before = after
	}
	t.Logf("%d of %d kills came between two files", between, kills)
	require.Positive(t, between)
}

// requireEither requires that each of the files in a directory is one of those of before or after, whole. It reports
// whether there are some of both.
func (b *box) requireEither(before, after map[string]string) bool {
	b.t.Helper()
	var old, new int
	for _, name := range b.filesIn("out") {
		switch content := b.read("out/" + name); content {
		case after[name]:
			new++
		case before[name]:
			old++
		default:
			requireSame(b.t, after[name], content)
		}
	}
	return old > 0 && new > 0
}

// filesIn lists the files of a directory that are not hidden.
func (b *box) filesIn(dir string) (names []string) {
	b.t.Helper()
	entries, err := os.ReadDir(b.path(dir))
	require.NoError(b.t, err)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}
