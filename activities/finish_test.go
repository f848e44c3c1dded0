package activities

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// done runs a job up to its Finish: every seventh item fails, every eleventh has no result.
func (f *fixture) done(runs int) (heads []string, want, wantErrors string) {
	f.t.Helper()
	f.spec.BatchItems = 8
	results := ""
	f.serve(&callstest.Handler{Each: func(c *calls.Call, item calls.Item) {
		switch {
		case item.Ordinal%7 == 3:
			c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Type: "T", Message: fmt.Sprint("item ", item.Ordinal)}}, 1)
		case item.Ordinal%11 == 5:
			c.Answer.Drop()
		default:
			c.Answer.Line(item.Data)
		}
	}}, Options{})
	for run := 1; ; run++ {
		f.newRun(fmt.Sprintf("run-%d", run))
		batches := f.plan(heads...)
		if run < runs {
			kept := batches[:0]
			for i, b := range batches {
				if i%3 == run%3 {
					kept = append(kept, b)
				}
			}
			batches = kept
		}
		if len(batches) > 0 {
			heads = []string{f.commit(heads, f.processAll(batches)...)}
		}
		if run >= runs {
			break
		}
	}
	for i, line := range strings.SplitAfter(f.read("in.jsonl"), "\n") {
		switch {
		case line == "":
		case i%7 == 3:
			wantErrors += fmt.Sprintf(`"message":"item %d"`, i) + "\n"
		case i%11 != 5:
			results += line
		}
	}
	return heads, results, wantErrors
}

// requireOutput fails unless output and errors are there, whole and in order.
func (f *fixture) requireOutput(want, wantErrors string) {
	f.t.Helper()
	require.Equal(f.t, want, f.read("out.jsonl"))
	if wantErrors == "" {
		require.NoFileExists(f.t, f.path("out.jsonl.errors.jsonl"))
		return
	}
	messages := ""
	for line := range strings.Lines(f.read("out.jsonl.errors.jsonl")) {
		var failure job.Failure
		require.NoError(f.t, json.Unmarshal([]byte(line), &failure))
		messages += fmt.Sprintf(`"message":%q`, failure.Error.Message) + "\n"
	}
	require.Equal(f.t, wantErrors, messages)
}

func sumOf(text string) string { return ledger.FormatSum(crc32.Checksum([]byte(text), wire.CRC32C)) }

func TestFinish_JoinsParts(t *testing.T) {
	t.Parallel()
	for _, runs := range []int{1, 3} {
		t.Run(fmt.Sprint(runs, " runs"), func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", jobtest.Lines(200))
			heads, want, wantErrors := f.done(runs)
			result := f.finish(heads...)
			f.requireOutput(want, wantErrors)
			require.Equal(t, job.Output{
				Location: f.spec.Output, Bytes: int64(len(want)), Checksum: sumOf(want), Errors: f.spec.Errors,
			}, result.Output)
			require.EqualValues(t, 200, result.Books.Items)
			require.EqualValues(t, strings.Count(wantErrors, "\n"), result.Books.Failed)
			require.Equal(t, result.Books.Items, result.Books.OK+result.Books.Failed)
			require.EqualValues(t, result.Books.OK-result.Books.Dropped, strings.Count(want, "\n"))

			var published wire.Done
			require.NoError(t, json.Unmarshal([]byte(f.read("out.jsonl.stint/"+f.ref.Run+"/DONE")), &published))
			require.Equal(t, result, wire.FinishResult{Output: published.Output, Books: published.Books, Failures: published.Failures}, "DONE tells what has been published")
		})
	}
}

func TestFinish_NothingPlanned(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", "")
	f.write("out.jsonl", "of an earlier job")
	f.plan()
	result := f.finish()
	f.requireOutput("", "")
	require.Zero(t, result.Books)
	require.Equal(t, sumOf(""), result.Output.Checksum)
}

func TestFinish_NoErrorsNoFile(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(20))
	f.write("out.jsonl.errors.jsonl", "of an earlier job\n")
	head := f.commit(nil, f.processAll(f.plan())...)
	result := f.finish(head)
	f.requireOutput(jobtest.Lines(20), "")
	require.Empty(t, result.Output.Errors)
}

func TestFinish_OnlyErrors(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(3))
	f.serve(&callstest.Handler{Each: func(c *calls.Call, item calls.Item) {
		c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Message: fmt.Sprint("item ", item.Ordinal)}}, 1)
	}}, Options{})
	head := f.commit(nil, f.processAll(f.plan())...)
	f.finish(head)
	f.requireOutput("", "\"message\":\"item 0\"\n\"message\":\"item 1\"\n\"message\":\"item 2\"\n")
}

func TestFinish_KeepsParts(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"out/", ""} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", jobtest.Lines(100))
			f.spec = job.Spec{Name: "test", Pool: "pool", Files: f.spec.Files, Backoff: time.Millisecond, Errors: f.path("errors.jsonl")}
			if output == "" {
				f.spec.Store = f.path("parts") + "/"
			} else {
				f.spec.Output = f.path("out") + "/"
			}
			heads, want, _ := f.done(2)
			result := f.finish(heads...)
			require.Equal(t, f.spec.Output, result.Output.Location)
			require.EqualValues(t, len(want), result.Output.Bytes)
			require.Equal(t, sumOf(want), result.Output.Checksum)

			// The parts in the order of the list are the output.
			joined, items, results := "", int64(0), int64(0)
			list := f.object(outputs.PartsList, int64(len(f.mustGet(outputs.PartsList))))
			for line := range strings.Lines(list) {
				var part outputs.ListedPart
				require.NoError(t, json.Unmarshal([]byte(line), &part))
				content := f.object(part.Part, part.Bytes)
				require.Equal(t, sumOf(content), part.Checksum)
				require.GreaterOrEqual(t, part.First, items)
				items = part.First + part.Items
				require.EqualValues(t, strings.Count(content, "\n"), part.Results)
				results += part.Results
				joined += content
			}
			require.Equal(t, want, joined)

			again := f.finish(heads...)
			require.Equal(t, result, again)
			require.Equal(t, list, f.mustGet(outputs.PartsList))
		})
	}
}

func (f *fixture) mustGet(key string) string {
	f.t.Helper()
	data, err := f.store().Get(f.t.Context(), key)
	require.NoError(f.t, err)
	return string(data)
}

// Parts of executions that were not accepted, and what is in the output by now, are removed;
// manifests, source table and error parts stay for those who redrive the job.
func TestFinish_Sweeps(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(100))
	heads, want, wantErrors := f.done(2)
	accepted := f.gather(heads...)
	stray := f.processAll([]wire.Batch{accepted[0].Batch, accepted[1].Batch})
	unnamed := f.commit(heads, stray...)
	f.write("out.jsonl.stint/other/parts/x.out", "of another run")
	for _, stray := range []string{"parts/000000000000000-0123456789abcdef.out", "manifests/0123.jsonl", "spool-0123/0/00000000"} {
		f.write("out.jsonl.stint/run-1/"+stray, "of the run before, and not accepted")
	}

	f.finish(heads...)
	f.requireOutput(want, wantErrors)
	keys := f.keys("")
	wanted := []string{"CURRENT", "other/parts/x.out", "run-2/DONE", f.ref.Sources}
	links, err := ledger.Chain(t.Context(), f.store(), heads)
	require.NoError(t, err)
	for _, l := range links {
		wanted = append(wanted, l.Key)
	}
	for _, e := range accepted {
		if e.ErrBytes > 0 {
			wanted = append(wanted, ledger.ErrorsKey(e.Owner, e.Entry))
		}
	}
	require.ElementsMatch(t, wanted, keys, "of its own run, and of the one before")
	require.NotContains(t, keys, unnamed)
	for _, key := range keys {
		require.False(t, strings.HasPrefix(key, "run-") && path.Ext(key) == ".out", "results are in the output now: %s", key)
	}
	// The manifests still lead to every error record.
	for _, e := range f.gather(heads...) {
		if e.ErrBytes > 0 {
			f.object(ledger.ErrorsKey(e.Owner, e.Entry), e.ErrBytes)
		}
	}
}

// A run that was overtaken after it had published leaves what earlier runs have to the one that overtook it.
func TestFinish_LeavesEarlierRunsToANewerOne(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(100))
	heads, _, _ := f.done(2)
	before := f.keys("run-1/")
	p, err := outputs.NewPublication(t.Context(), f.acts.opts.Access, f.ref, f.spec)
	require.NoError(t, err)
	p.Links, err = ledger.Chain(t.Context(), p.Dir, heads)
	require.NoError(t, err)
	newer := f.ref
	newer.Run, newer.Born = "run-3", f.ref.Born+1
	require.NoError(t, ledger.Claim(t.Context(), newer, p.Dir))
	require.NoError(t, p.Sweep(t.Context()))
	require.Equal(t, before, f.keys("run-1/"))
}

// G2: an output of before is replaced in one step; whatever step of Finish fails, what is under the
// output's name is whole, and a repetition brings the job to the same end.
func TestFinish_RepeatableAtEveryStep(t *testing.T) {
	t.Parallel()
	for step := 0; ; step++ {
		f := setup(t, "in.jsonl", jobtest.Lines(60))
		f.write("out.jsonl", "of an earlier job")
		heads, want, wantErrors := f.done(2)
		ctx := jobtest.NewFuse(step)
		result, err := f.acts.Finish(ctx, f.finishInput(heads...))
		if !ctx.Burnt() {
			require.NoError(t, err)
			f.requireOutput(want, wantErrors)
			require.Greater(t, step, 20, "there were steps to fail at")
			return
		}
		if err != nil {
			if now := f.read("out.jsonl"); now != "of an earlier job" {
				require.Equal(t, want, now, "step %d", step)
			}
		}
		require.Empty(t, f.temporaries(), "step %d", step)
		again := f.finish(heads...)
		f.requireOutput(want, wantErrors)
		if err == nil {
			require.Equal(t, result, again)
		}
		third := f.finish(heads...)
		require.Equal(t, again, third, "and once more")
		f.requireOutput(want, wantErrors)
	}
}

// temporaries lists unfinished files beside the output.
func (f *fixture) temporaries() []string {
	f.t.Helper()
	found, err := filepath.Glob(f.path(".*"))
	require.NoError(f.t, err)
	return found
}

// A repetition that finds the output as DONE tells does not write it again.
func TestFinish_RepeatLeavesOutputAlone(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(60))
	heads, want, wantErrors := f.done(1)
	first := f.finish(heads...)
	before, err := os.Stat(f.path("out.jsonl"))
	require.NoError(t, err)
	require.Equal(t, first, f.finish(heads...))
	after, err := os.Stat(f.path("out.jsonl"))
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "it is the same file")
	f.requireOutput(want, wantErrors)
}

// DONE is written before the output is published: a kill between the two leaves the old output, and
// the repetition must notice.
func TestFinish_DoneWithoutOutput(t *testing.T) {
	t.Parallel()
	for name, found := range map[string]string{"none": "", "old": "of an earlier job", "longer": "x"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", jobtest.Lines(60))
			heads, want, wantErrors := f.done(1)
			saved := f.saveParts()
			f.finish(heads...)
			saved()
			switch name {
			case "none":
				require.NoError(t, os.Remove(f.path("out.jsonl")))
			case "longer":
				f.write("out.jsonl", want+found)
			default:
				f.write("out.jsonl", found)
			}
			f.finish(heads...)
			f.requireOutput(want, wantErrors)
		})
	}
}

// saveParts returns a function that puts the parts back that a Finish has removed.
func (f *fixture) saveParts() (restore func()) {
	f.t.Helper()
	parts := map[string]string{}
	for _, key := range f.keys("") {
		if path.Ext(key) == ".out" {
			parts[key] = f.mustGet(key)
		}
	}
	return func() {
		for key, content := range parts {
			require.NoError(f.t, f.store().Put(f.t.Context(), key, []byte(content)))
		}
	}
}

// A Finish that was frozen while a newer run of the job took over must do no harm.
func TestFinish_Fenced(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(60))
	heads, _, _ := f.done(1)
	f.write("out.jsonl", "of the newer run")
	f.write("out.jsonl.errors.jsonl", "of the newer run, too")
	require.NoError(t, f.store().Claim(t.Context(), ledger.CurrentKey, "run-9", nil))
	before := f.keys("")
	_, err := f.acts.Finish(t.Context(), f.finishInput(heads...))
	jobtest.RequireType(t, err, job.ErrorFenced)
	require.Equal(t, "of the newer run", f.read("out.jsonl"))
	require.Equal(t, "of the newer run, too", f.read("out.jsonl.errors.jsonl"))
	for _, key := range before {
		require.Contains(t, f.keys(""), key, "nothing is removed")
	}
	require.Empty(t, f.temporaries())
}

func TestFinish_FencedKeepsParts(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(60))
	f.spec = job.Spec{Name: "test", Pool: "pool", Files: f.spec.Files, Output: f.path("out") + "/"}
	heads, _, _ := f.done(1)
	require.NoError(t, f.store().Claim(t.Context(), ledger.CurrentKey, "run-9", nil))
	require.NoError(t, f.store().Put(t.Context(), outputs.PartsList, []byte("of the newer run")))
	_, err := f.acts.Finish(t.Context(), f.finishInput(heads...))
	jobtest.RequireType(t, err, job.ErrorFenced)
	require.Equal(t, "of the newer run", f.mustGet(outputs.PartsList))
}

// Without failures there is no file of errors: of a newer run it must not be removed.
func TestFinish_FencedWithoutErrors(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(5))
	head := f.commit(nil, f.processAll(f.plan())...)
	f.write("out.jsonl.errors.jsonl", "of the newer run")
	require.NoError(t, f.store().Claim(t.Context(), ledger.CurrentKey, "run-9", nil))
	_, err := f.acts.Finish(t.Context(), f.finishInput(head))
	jobtest.RequireType(t, err, job.ErrorFenced)
	require.Equal(t, "of the newer run", f.read("out.jsonl.errors.jsonl"))
}

// A part that is not what was accepted fails the job, and nothing is published.
func TestFinish_CorruptParts(t *testing.T) {
	t.Parallel()
	damage := map[string]func(f *fixture, key string){
		"changed": func(f *fixture, key string) { f.rewrite(key, func(s string) string { return "#" + s[1:] }) },
		"shorter": func(f *fixture, key string) { f.rewrite(key, func(s string) string { return s[:len(s)-1] }) },
		"longer":  func(f *fixture, key string) { f.rewrite(key, func(s string) string { return s + "\n" }) },
		"empty":   func(f *fixture, key string) { f.rewrite(key, func(string) string { return "" }) },
		"gone": func(f *fixture, key string) {
			require.NoError(f.t, f.store().Delete(f.t.Context(), key))
		},
	}
	for name, do := range damage {
		for _, kind := range []string{"results", "errors"} {
			for _, output := range []string{"file", "parts", "table"} {
				t.Run(fmt.Sprintf("%s %s of %s", kind, name, output), func(t *testing.T) {
					t.Parallel()
					f := setup(t, "in.jsonl", jobtest.Lines(60))
					switch output {
					case "parts":
						f.spec = job.Spec{Name: "test", Pool: "pool", Files: f.spec.Files, Output: f.path("out") + "/"}
					case "table":
						f.spec = job.Spec{Name: "test", Pool: "pool", Files: f.spec.Files, Output: f.path("out.csv")}.WithDefaults()
					}
					heads, _, _ := f.done(1)
					e := f.gather(heads...)[3].Entry
					key := ledger.ResultsKey(f.ref.Run, e)
					if kind == "errors" {
						key = ledger.ErrorsKey(f.ref.Run, e)
					}
					do(f, key)
					_, err := f.acts.Finish(t.Context(), f.finishInput(heads...))
					jobtest.RequireType(t, err, job.ErrorCorrupt)
					require.ErrorContains(t, err, path.Base(key))
					require.NoFileExists(t, f.path("out.jsonl"))
					require.NoFileExists(t, f.path("out.csv"))
					require.NoFileExists(t, f.path("out")+"/"+outputs.PartsList)
					if kind == "errors" {
						require.NoFileExists(t, f.spec.Errors)
					}
				})
			}
		}
	}
}

// rewrite changes an object of the store.
func (f *fixture) rewrite(key string, change func(string) string) {
	f.t.Helper()
	require.NoError(f.t, f.store().Put(f.t.Context(), key, []byte(change(f.mustGet(key)))))
}

func TestFinish_BooksDoNotBalance(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(60))
	heads, _, _ := f.done(1)
	in := f.finishInput(heads...)
	in.Planned++
	_, err := f.acts.Finish(t.Context(), in)
	jobtest.RequireType(t, err, job.ErrorBooks)
	require.NoFileExists(t, f.path("out.jsonl"))
	require.NoFileExists(t, f.path("out.jsonl.errors.jsonl"))
}

func TestFinish_OutputUnwritable(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(60))
	heads, _, _ := f.done(1)
	require.NoError(t, os.Mkdir(f.path("out.jsonl"), 0o777))
	f.write("out.jsonl/file", "")
	_, err := f.acts.Finish(t.Context(), f.finishInput(heads...))
	jobtest.RequireType(t, err, job.ErrorOutput)
	require.Empty(t, f.temporaries())
}

func TestWriteReport(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("report.json", "old")
	want := job.Report{Job: "nightly", State: job.Completed, Outcomes: job.Outcomes{Totals: job.Totals{OK: 7}}}
	require.NoError(t, f.acts.WriteReport(t.Context(), wire.ReportInput{Location: f.path("report.json"), Report: want}))
	var got job.Report
	require.NoError(t, json.Unmarshal([]byte(f.read("report.json")), &got))
	require.Equal(t, want, got)

	require.NoError(t, os.Mkdir(f.path("dir"), 0o777))
	err := f.acts.WriteReport(t.Context(), wire.ReportInput{Location: f.path("dir")})
	jobtest.RequireType(t, err, job.ErrorOutput)
	err = f.acts.WriteReport(t.Context(), wire.ReportInput{Location: f.path("dir") + "/"})
	jobtest.RequireType(t, err, job.ErrorOutput)
}

// What a killed process has left of a run that another continues from is found, too.
func TestFinish_SweepsEarlierRuns(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(100))
	heads, want, wantErrors := f.done(2)
	left := filepath.Join(f.spec.Store, "run-1", ".out.jsonl.abcdefghijklm.tmp")
	require.NoError(t, os.WriteFile(left, []byte("half"), 0o666))
	f.finish(heads...)
	f.requireOutput(want, wantErrors)
	require.NoFileExists(t, left)
}

// A run that was stopped while its first page was copied, or that has committed only what the next run does not take
// over, is in no chain: the run that takes its place removes what it has left, but not what others have.
func TestFinish_SweepsRunsOutsideTheChain(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt.gz", gzipped(t, lines("line", 100)))
	f.spec.BatchItems = 10
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	f.newRun("run-other")
	f.plan()
	f.newRun("run-1")
	f.plan()
	require.NotEmpty(t, f.keys("run-1/spool-"))
	f.newRun("run-2")
	batches := f.plan()
	f.commit(nil, f.processAll(batches[:3])...)
	f.newRun("run-3")
	head := f.commit(nil, f.processAll(f.plan()[:4])...)
	f.newRun("run-4")
	head = f.commit([]string{head}, f.processAll(f.plan(head))...)
	in := f.finishInput(head)
	in.Earlier = []string{"run-1", "run-2", "run-3", "run-4", "run-gone"}
	for _, run := range []string{"run-1", "run-3"} { // both had begun to publish something
		require.NoError(t, f.store().Put(t.Context(), wire.Ref{Run: run}.DoneKey(), []byte("{}")))
	}

	result := f.finish(head)
	require.Equal(t, lines("line", 100), f.read("out.jsonl"))
	require.NotEmpty(t, f.keys("run-1/spool-"), "it was not named")

	// A newer run may continue from any of them.
	before := f.keys("run-1/")
	require.NoError(t, ledger.Claim(t.Context(), wire.Ref{Run: "run-5", Born: f.born + 1}, f.store()))
	again, err := f.acts.Finish(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, result, again)
	require.Equal(t, before, f.keys("run-1/"))

	require.NoError(t, f.store().Delete(t.Context(), ledger.CurrentKey))
	require.NoError(t, ledger.Claim(t.Context(), f.ref, f.store()))
	again, err = f.acts.Finish(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, result, again)
	require.Empty(t, f.keys("run-1/"))
	require.Empty(t, f.keys("run-2/"))
	require.NotEmpty(t, f.keys("run-3/manifests/"), "it is in the chain")
	require.NotEmpty(t, f.keys("run-3/DONE"), "a repetition looks at it")
	require.NotEmpty(t, f.keys("run-other/spool-"), "it was not named")
}

// What is made of an input is not open to others than the input is, wherever it lies.
func TestFinish_NoWiderThanTheInput(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(40), "more.jsonl.gz", gzipped(t, jobtest.Lines(8)))
	require.NoError(t, os.Chmod(f.spec.Files.Input[0], 0o640))
	before := f.files()
	check := func(made ...string) {
		found := ""
		for name, mode := range f.files() {
			if _, input := before[name]; input || strings.HasPrefix(filepath.Base(name), ledger.CurrentKey) {
				continue
			}
			found += name + "\n"
			require.Zero(t, mode&^0o640, "%s has the mode %o", name, mode)
		}
		for _, name := range made {
			require.Contains(t, found, name)
		}
	}
	heads, _, _ := f.done(2)
	check("/sources-", "/spool-", "/manifests/", "/parts/")
	f.finish(heads...)
	require.NoError(t, f.acts.WriteReport(t.Context(), wire.ReportInput{Location: f.path("report.json"), Ref: f.ref}))
	check("/out.jsonl\n", "/out.jsonl.errors.jsonl", "/DONE", "/report.json")
}

// files are the access rights of all files by their names.
func (f *fixture) files() map[string]fs.FileMode {
	f.t.Helper()
	files := map[string]fs.FileMode{}
	require.NoError(f.t, filepath.WalkDir(f.dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			info, err := entry.Info()
			require.NoError(f.t, err)
			files[path] = info.Mode().Perm()
		}
		return err
	}))
	return files
}
