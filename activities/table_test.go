package activities

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// asTable is what lines of {"n":N} are as CSV.
func asTable(lines string) string {
	table := "n\n"
	for line := range strings.Lines(lines) {
		table += strings.TrimSuffix(strings.TrimPrefix(line, `{"n":`), "}\n") + "\n"
	}
	return table
}

// 14.13: an output named .csv has a row for each result; the parts stay, and `stint results` prints them.
func TestFinish_Table(t *testing.T) {
	t.Parallel()
	for _, runs := range []int{1, 3} {
		t.Run(fmt.Sprint(runs, " runs"), func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", jobtest.Lines(200))
			f.spec = job.Spec{Name: "test", Pool: "pool", Files: f.spec.Files, Output: f.path("out.csv")}.WithDefaults()
			access := f.acts.opts.Access
			heads, lines, wantErrors := f.done(runs)
			f.acts.opts.Joiner = outputs.NewJoiner(access)
			defer f.acts.opts.Joiner.Close()
			f.acts.opts.Joiner.Begin(f.ref, f.spec)
			report := f.finished(heads...)
			want := asTable(lines)
			require.Equal(t, want, f.read("out.csv"))
			require.Equal(t, job.Output{Location: f.spec.Output, Bytes: int64(len(want)), Checksum: sumOf(want), Errors: f.spec.Errors}, *report.Output)
			require.Equal(t, strings.Count(wantErrors, "\n"), strings.Count(f.read("out.csv.errors.jsonl"), "\n"))

			got, next := f.results(report, false, 0)
			require.Equal(t, lines, got)
			require.EqualValues(t, 200, next)
			require.Equal(t, *report.Output, f.finish(heads...).Output, "it can be repeated")

			require.NoError(t, os.Remove(f.path("out.csv")))
			require.Equal(t, *report.Output, f.finish(heads...).Output)
			require.Equal(t, want, f.read("out.csv"), "and is made anew if it is gone")
		})
	}
}

// Whatever step of Finish fails, the table of before or the new one is there, whole.
func TestFinish_TableRepeatableAtEveryStep(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	for step := 0; ; step++ {
		f := setup(t, "in.jsonl", jobtest.Lines(60))
		f.spec = job.Spec{Name: "test", Pool: "pool", Files: f.spec.Files, Output: f.path("out.tsv")}.WithDefaults()
		f.write("out.tsv", "of an earlier job")
		heads, lines, _ := f.done(2)
		ctx := jobtest.NewFuse(step)
		_, err := f.acts.Finish(ctx, f.finishInput(heads...))
		if !ctx.Burnt() {
			require.NoError(t, err)
			require.Greater(t, step, 20, "there were steps to fail at")
			return
		}
		if now := f.read("out.tsv"); now != "of an earlier job" {
			require.Equal(t, asTable(lines), now, "step %d", step)
		}
		f.finish(heads...)
		require.Equal(t, asTable(lines), f.read("out.tsv"), "step %d", step)
	}
}

// A redrive makes the table anew, with the results that there were not before.
func TestRedrive_Table(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(40))
	f.spec = job.Spec{Name: "test", Pool: "pool", Files: f.spec.Files, Output: f.path("out.csv"), BatchItems: 8}.WithDefaults()
	f.newRun("run-1")
	fails := true
	f.serve(&callstest.Handler{Each: func(c *calls.Call, item calls.Item) {
		if fails && (item.Ordinal == 0 || item.Ordinal == 17 || item.Ordinal == 39) {
			c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Message: "no"}}, 1)
			return
		}
		c.Answer.Line(item.Data)
	}}, Options{})
	heads := []string{f.commit(nil, f.processAll(f.plan())...)}
	before := f.finish(heads...)
	require.EqualValues(t, 3, before.Books.Failed)

	fails = false
	f.redrive = &job.Redrive{Manifests: heads, Output: before.Output, Planned: 40, Runs: []string{f.ref.Run}}
	f.newRun("run-2")
	result := f.finish(f.commit(nil, f.processAll(f.plan())...))
	require.Zero(t, result.Books.Failed)
	require.Equal(t, asTable(jobtest.Lines(40)), f.read("out.csv"))
	got, _ := f.results(job.Report{Job: "test", Run: f.ref.Run, Store: f.spec.Store, Manifests: result.Manifests, Planned: 40, Output: &result.Output, State: job.Completed}, false, 0)
	require.Equal(t, jobtest.Lines(40), got)
}

// Items of CSV that are run again are records still, and those of an array, and of JSON, are not.
func TestRedrive_Records(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.csv", "a,b\n1,2\n3,4\n", "in.json", "[\n{\"a\":\n5},\n{\"a\":6}]", "in.tsv", "a\n7\n")
	fails, records := true, map[string]bool{}
	f.serve(&callstest.Handler{Each: func(c *calls.Call, item calls.Item) {
		if fails {
			c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Message: "no"}}, 1)
			return
		}
		records[string(item.Data)] = c.Records
		c.Answer.Line(item.Data)
	}}, Options{})
	heads := []string{f.commit(nil, f.processAll(f.plan())...)}
	before := f.finish(heads...)
	require.EqualValues(t, 5, before.Books.Failed)
	fails = false
	f.redrive = &job.Redrive{Manifests: heads, Output: before.Output, Planned: 5, Runs: []string{f.ref.Run}}
	f.newRun("run-2")
	f.finish(f.commit(nil, f.processAll(f.plan())...))
	require.Equal(t, map[string]bool{`{"a":"1","b":"2"}`: true, `{"a":"3","b":"4"}`: true, `{"a":5}`: false, `{"a":6}`: false, `{"a":"7"}`: true}, records)
}

// Rows, columns and cells, of one job each.
func TestFinish_TableForms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		results string
		columns []string
		output  string
		want    string
	}{
		"keys as they come": {`{"b":1,"a":"x"}` + "\n" + `{"a":"y","c":true}` + "\n", nil, "out.csv", "b,a,c\n1,x,\n,y,true\n"},
		"chosen":            {`{"b":1,"a":"x"}` + "\n" + `{"a":"y","c":true}` + "\n", []string{"a", "d", "b"}, "out.csv", "a,d,b\nx,,1\ny,,\n"},
		"quotes":            {`{"a":"x,y","b":"say \"so\"","c":"two\nlines","d":"\t"}` + "\n", nil, "out.csv", "a,b,c,d\n\"x,y\",\"say \"\"so\"\"\",\"two\nlines\",\t\n"},
		"tabs":              {`{"a":"x,y","b":"\t","c\t":null}` + "\n", nil, "out.TSV", "a\tb\t\"c\t\"\nx,y\t\"\t\"\t\n"},
		"nested":            {`{ "a" : {"x":[1,"é"]} , "b" : [ ] }` + "\n", nil, "out.csv", "a,b\n\"{\"\"x\"\":[1,\"\"é\"\"]}\",[ ]\n"},
		"scalars":           {`{"a":null,"b":false,"c":1.50,"d":"","e":"\u00e9"}` + "\n", nil, "out.csv", "a,b,c,d,e\n,false,1.50,,é\n"},
		"no blank lines":    {`{"a":""}` + "\n" + `{"a":null}` + "\n" + `{"a":" "}` + "\n{}\n", nil, "out.csv", "a\n\"\"\n\"\"\n\" \"\n\"\"\n"},
		"a key twice":       {`{"a":1,"a":2}` + "\n", nil, "out.csv", "a\n2\n"},
		"escaped key":       {`{"\u0061":1}` + "\n" + `{"a":2}` + "\n", nil, "out.csv", "a\n1\n2\n"},
		"deep":              {`{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}\n", nil, "out.csv", "a\n" + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n"},
		"rows of a filter":  {`"a,b"` + "\n" + `{"a":1}` + "\n[]\n", nil, "out.csv", `"a,b"` + "\n" + `{"a":1}` + "\n[]\n"},
		"no result":         {"", nil, "out.csv", ""},
		"only a header":     {"", []string{"a", "b"}, "out.csv", "a,b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", c.results)
			f.spec = job.Spec{Name: "test", Pool: "pool", Files: f.spec.Files, Output: f.path(c.output), Columns: c.columns}.WithDefaults()
			f.newRun("run-1")
			var heads []string
			if batches := f.plan(); len(batches) > 0 {
				heads = []string{f.commit(nil, f.processAll(batches)...)}
			}
			f.finish(heads...)
			require.Equal(t, c.want, f.read(c.output))
		})
	}
}

// If a later result is not an object the job fails; its results are kept.
func TestFinish_TableOfOtherThings(t *testing.T) {
	t.Parallel()
	for _, columns := range [][]string{nil, {"a"}} {
		f := setup(t, "in.txt", "a\nb c\n")
		f.spec = job.Spec{Name: "test", Pool: "pool", Files: &job.Files{Input: []string{f.write("in.jsonl", "{\"a\":1}\n[2]\n")}}, Output: f.path("out.csv"), Columns: columns, BatchItems: 9}
		f.newRun("run-1")
		heads := []string{f.commit(nil, f.processAll(f.plan())...)}
		_, err := f.finishOnce(t.Context(), f.finishInput(heads...))
		jobtest.RequireType(t, err, job.ErrorOutput)
		require.ErrorContains(t, err, `result 2 of items 0 to 1 is not a JSON object, so it cannot become a row: "[2]"`)
		require.ErrorContains(t, err, "stint results test")
		require.NoFileExists(t, f.path("out.csv"))
		require.Empty(t, f.temporaries())
		got, _ := f.results(f.report(heads...), false, 0)
		require.Equal(t, "{\"a\":1}\n[2]\n", got)
	}
}

// Parts that are not what was accepted never become a table.
func TestFinish_TableOfCorruptPart(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(20))
	f.spec = job.Spec{Name: "test", Pool: "pool", Files: f.spec.Files, Output: f.path("out.csv"), BatchItems: 20}.WithDefaults()
	f.newRun("run-1")
	entries := f.processAll(f.plan())
	head := f.commit(nil, entries...)
	f.rewrite(ledger.ResultsKey(f.ref.Run, entries[0]), func(part string) string { return strings.Replace(part, "7", "8", 1) })
	_, err := f.finishOnce(t.Context(), f.finishInput(head))
	jobtest.RequireType(t, err, job.ErrorCorrupt)
	require.NoFileExists(t, f.path("out.csv"))
}
