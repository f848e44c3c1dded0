package activities

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestRedrive_InsertsResultsAtTheirPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		failed []int64
	}{
		{"the first", []int64{0}},
		{"the last", []int64{39}},
		{"first and last", []int64{0, 39}},
		{"neighbours", []int64{11, 12, 13}},
		{"over the end of a batch", []int64{15, 16}},
		{"a whole batch", []int64{8, 9, 10, 11, 12, 13, 14, 15}},
		{"the ends of every batch", []int64{0, 7, 8, 15, 16, 23, 24, 31, 32, 39}},
	} {
		for _, output := range []string{"out.txt", "out/", ""} {
			t.Run(c.name+" to "+output, func(t *testing.T) {
				t.Parallel()
				f := setup(t, "in.jsonl", jobtest.Lines(40))
				f.spec = job.Spec{Name: "test", Pool: "pool", Files: f.spec.Files, BatchItems: 8, Store: f.path("store")}
				if output != "" {
					f.spec.Output, f.spec.Store = f.path(output), ""
					if output == "out/" {
						f.spec.Output += "/"
					}
				}
				m := newModel(f, calls.Lines, 3)
				m.decide = failingAt(c.failed...)
				m.run()
				require.Len(t, m.failed, len(c.failed))

				require.NoError(t, os.Remove(f.path("in.jsonl")), "the input is not needed")
				m.decide = failingAt(c.failed[len(c.failed)-1])
				m.run()
				require.Equal(t, c.failed, m.again, "only failed items run, in order")
				require.Len(t, m.failed, 1)
				require.Equal(t, 2, m.failed[c.failed[len(c.failed)-1]].Attempts)
				m.requireSwept()

				m.decide = failingAt()
				result := m.run()
				require.Len(t, m.again, 1)
				require.Zero(t, result.Books.Failed)
				require.Empty(t, result.Output.Errors)
				require.Empty(t, m.fetch(f.spec.Errors), "no errors, no file of them")
				require.Len(t, m.results, 40)
				m.requireSwept()
			})
		}
	}
}

func TestRedrive_DropsStayDrops(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(30))
	f.spec.BatchItems = 6
	m := newModel(f, calls.Lines, 4)
	m.decide = func(ordinal int64) outcomeOf {
		if ordinal%5 == 1 {
			return outcomeOf{drop: true}
		}
		return failingAt(2, 3, 4, 9, 29)(ordinal)
	}
	m.run()
	m.decide = func(ordinal int64) outcomeOf {
		if ordinal == 3 || ordinal == 29 {
			return outcomeOf{drop: true}
		}
		return failingAt(9)(ordinal)
	}
	result := m.run()
	require.EqualValues(t, 8, result.Books.Dropped)
	require.EqualValues(t, 1, result.Books.Failed)
	m.decide = failingAt()
	require.EqualValues(t, 8, m.run().Books.Dropped)
}

// Whatever an item's bytes are: it comes to the handler as it did before; what is no item stays failed.
func TestRedrive_SameBytes(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 1)
	for round := range 18 {
		format := []wire.Format{records.Text, records.JSONL, records.CSV}[round%3]
		form := []calls.Form{calls.Lines, calls.JSONValues, calls.CheckedJSON}[round/3%3]
		if format == records.Text {
			form = calls.Lines // as JSON some could not be called with at all
		}
		input := spoilable(random, format, 0, 40)
		t.Run(fmt.Sprint(round, " ", format), func(t *testing.T) {
			name := map[wire.Format]string{records.Text: "in.txt", records.JSONL: "in.jsonl", records.CSV: "in.csv"}[format]
			t.Parallel()
			f := setup(t, name, input)
			f.spec.BatchItems, f.spec.MaxItem = 7, 200
			m := newModel(f, form, 5)
			everything := func(int64) outcomeOf {
				return outcomeOf{fault: &calls.Fault{Kind: job.KindError, Err: job.Error{Message: "no"}}, tries: 1}
			}
			m.decide = everything
			m.run()
			require.NotEmpty(t, m.again)
			for range 2 {
				first := len(m.ordinals)
				ran := len(m.again)
				m.run()
				require.Len(t, m.ordinals, first)
				require.Len(t, m.again, ran, "each of them")
			}
			m.decide = failingAt()
			m.run()
			for ordinal := range m.failed {
				require.True(t, m.never[ordinal], "only what is no item is left")
			}
		})
	}
}

// Over random jobs, with inputs of all formats, any outcomes and any number of redrives, some of them
// stopped and gone on with, the output is what a model says. W2: also with random expressions: only the items that these
// select run again, the others stay as they were.
func TestRedrive_RandomJobs(t *testing.T) {
	t.Parallel()
	for round := range 40 {
		seed := uint64(round)
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, seed)
			names, inputs := []string{"a.txt", "b.csv", "c.jsonl", "d.jsonl", "e.txt"}, []string{}
			for i, format := range []wire.Format{records.Text, records.CSV, records.JSONL, records.JSONL, records.Text} {
				if random.IntN(2) == 0 {
					inputs = append(inputs, names[i], spoilable(random, format, 1000*i, random.IntN(30)))
				}
			}
			if len(inputs) == 0 {
				inputs = []string{"a.txt", "0\n1\n2\n"}
			}
			f := setup(t, inputs...)
			f.spec.BatchItems, f.spec.MaxItem = 1+random.Int64N(12), 200
			if random.IntN(2) == 0 {
				f.spec.Output, f.spec.Errors = f.path("out")+"/", ""
			}
			f.spec.Flatten = random.IntN(2) == 0
			if random.IntN(2) == 0 {
				f.spec.Split, f.spec.Output, f.spec.Errors, f.spec.Store = ".k", f.path("out")+"/", "", ""
			}
			if random.IntN(2) == 0 {
				f.spec.Dropped = f.path("dropped")
			}
			m := newModel(f, calls.Lines, 1+random.IntN(7))
			m.randomly(random)
		})
	}
}

// An item of CSV comes as an object, in which the header's names take more room than an item may have.
func TestRedrive_ObjectLongerThanAnItem(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.csv", "a_rather_long_name,another_rather_long_name\n1,2\n3,4\n")
	f.spec.MaxItem = 50
	m := newModel(f, calls.Lines, 3)
	m.decide = failingAt(0, 1)
	m.run()
	m.decide = failingAt()
	require.Zero(t, m.run().Books.Failed)
}

// What was no item to the handler that the pool had may be one to that which it has now.
func TestRedrive_ToAHandlerOfAnotherForm(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", "a\n\xff\xfe\nb\n")
	m := newModel(f, calls.JSONValues, 3)
	m.run()
	require.Equal(t, job.KindInvalid, m.failed[1].Kind)
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	m.newRun("run-2")
	result := m.finish(m.goOn()...)
	require.Zero(t, result.Books.Failed)
	require.Equal(t, "result 0\n\xff\xfe\nresult 2\n", f.read("out.jsonl"))
}

func TestRedrive_InABucket(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.inBucket("in.jsonl", jobtest.Lines(100))
	m := newModel(f, calls.Lines, 3)
	m.decide = failingAt(0, 7, 8, 50, 51, 52, 99)
	m.run()
	m.decide = failingAt(51, 99)
	m.run()
	m.requireSwept()
	m.decide = failingAt()
	m.run()
	require.Len(t, m.results, 100)
	m.requireSwept()
}

// G2: until the merged output takes its place the old one is whole, whatever step fails; a repetition
// brings the redrive to the same end.
func TestRedrive_FinishRepeatableAtEveryStep(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	for _, c := range []struct {
		name, output string
		remain       []int64
		where        job.Where
	}{
		{"a file", "out.jsonl", nil, ""},
		{"a file that stays the same", "out.jsonl", []int64{3, 9, 10, 39}, ""},
		{"parts", "out/", []int64{9}, ""},
		{"split", "split/", []int64{9}, ""},
		{"some of a file", "out.jsonl", []int64{39}, "message=9"},
		{"none", "out.jsonl", nil, "type=Other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for step := 0; failAtStep(t, c.output, c.remain, c.where, step); step++ {
			}
		})
	}
}

func failAtStep(t *testing.T, output string, remain []int64, where job.Where, step int) (burnt bool) {
	t.Helper()
	f := setup(t, "in.jsonl", jobtest.Lines(40))
	f.spec.BatchItems = 8
	if output == "out/" {
		f.spec.Output, f.spec.Errors, f.spec.Store = f.path("out")+"/", "", ""
	}
	if output == "split/" {
		f.spec.Split, f.spec.Output, f.spec.Errors, f.spec.Store = "k", f.path("split")+"/", "", ""
	}
	m := newModel(f, calls.Lines, 3)
	m.decide = failingAt(3, 9, 10, 39)
	m.run()
	before, old := m.done, ""
	old, _ = m.printed(false)
	m.decide, m.redrive.Where = failingAt(remain...), where
	heads := m.begin()
	ctx := jobtest.NewFuse(step)
	result, err := f.finishOnce(ctx, f.finishInput(heads...))
	if !ctx.Burnt() {
		require.NoError(t, err)
		m.finished(result, heads)
		require.Greater(t, step, 20, "there were steps to fail at")
		return false
	}
	if _, isDone := f.readOr(f.ref.Run + "/DONE"); err != nil && !isDone {
		now, _ := f.results(before, false, 0)
		require.Equal(t, old, now, "step %d", step)
	}
	m.finished(f.finish(heads...), heads)
	m.redrive = &job.Redrive{Manifests: before.Manifests, Output: *before.Output, Planned: before.Planned, Where: where, Runs: []string{before.Run}}
	again := f.finish(heads...)
	m.finished(again, heads)
	m.requireSwept()
	return true
}

func (f *fixture) readOr(key string) (string, bool) {
	data, err := f.store().Get(f.t.Context(), key)
	return string(data), err == nil
}

func TestRedrive_OutputThatIsNotAsItWas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(t *testing.T, path string)
		says   string
		atPlan bool
	}{
		{"gone", func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, "is gone", true},
		{"longer", func(t *testing.T, path string) { appendTo(t, path, "more\n") }, "bytes", true},
		{"other bytes", func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, bytes.ToUpper(data), 0o666))
		}, "crc32c:", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", jobtest.Lines(20))
			m := newModel(f, calls.Lines, 3)
			m.decide = failingAt(3, 4)
			m.run()
			m.decide = failingAt()
			m.newRun("run-2")
			intact := f.read("out.jsonl")
			c.change(t, f.path("out.jsonl"))
			_, err := f.planOnce(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
			if c.atPlan {
				jobtest.RequireType(t, err, job.ErrorCorrupt)
				require.ErrorContains(t, err, f.path("out.jsonl"))
				require.ErrorContains(t, err, c.says)
			}
			f.write("out.jsonl", intact)
			heads := m.begin()
			c.change(t, f.path("out.jsonl"))
			changed, _ := os.ReadFile(f.path("out.jsonl"))
			_, err = f.finishOnce(t.Context(), f.finishInput(heads...))
			jobtest.RequireType(t, err, job.ErrorCorrupt)
			require.ErrorContains(t, err, f.path("out.jsonl"))
			require.ErrorContains(t, err, "put it back")
			now, _ := os.ReadFile(f.path("out.jsonl"))
			require.Equal(t, changed, now, "it is left alone")
			require.Empty(t, f.temporaries())

			f.write("out.jsonl", intact)
			m.finishRun(heads...)
		})
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = file.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

// What a redrive has published before it was ended without telling is taken over by the next attempt.
func TestRedrive_PublishedByAnEarlierAttempt(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"out.jsonl", "out/"} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", jobtest.Lines(40))
			require.NoError(t, os.Chmod(f.path("in.jsonl"), 0o600))
			if output == "out/" {
				f.spec.Output, f.spec.Errors, f.spec.Store = f.path("out")+"/", "", ""
			}
			m := newModel(f, calls.Lines, 3)
			m.decide = failingAt(3, 9, 10, 39)
			m.run()
			m.decide = failingAt(10)
			heads := m.begin()
			m.redrive.Runs = append(m.redrive.Runs, m.ref.Run)
			told := f.finish(heads...) // and nobody hears of it

			m.runs++
			m.newRun(fmt.Sprintf("run-%d", m.runs))
			require.Empty(t, f.plan(heads...))
			require.NoError(t, os.Remove(f.spec.Errors)) // it is published again
			result := f.finish(heads...)
			require.Equal(t, told, result)
			require.Equal(t, fs.FileMode(0o600), f.files()[f.spec.Errors], "no wider than the input")
			require.EqualValues(t, 4, result.Redriven)
			require.Equal(t, result, f.finish(heads...), "it can be repeated")
			m.next.Item = int64(len(m.again))
			m.finished(result, heads)
			m.decide = failingAt()
			require.Zero(t, m.run().Books.Failed)
			m.requireSwept()
		})
	}
}

// A newer run of the job is not undone by a redrive that comes too late.
func TestRedrive_CannotOvertake(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(20))
	m := newModel(f, calls.Lines, 3)
	m.decide = failingAt(3, 4)
	m.run()
	before := f.read("out.jsonl")
	m.decide = failingAt()
	heads := m.begin()
	require.NoError(t, f.store().Claim(t.Context(), ledger.CurrentKey, "run-9", nil))
	_, err := f.finishOnce(t.Context(), f.finishInput(heads...))
	jobtest.RequireType(t, err, job.ErrorFenced)
	require.Equal(t, before, f.read("out.jsonl"))
	require.FileExists(t, f.path("out.jsonl.errors.jsonl"))
}

// The first error that a redrive tells names the item as the job does, also before the merge.
func TestRedrive_FirstErrorNamesTheJobsItem(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(40))
	f.spec.BatchItems = 8
	m := newModel(f, calls.Lines, 3)
	m.decide = failingAt(11, 12, 37)
	m.run()
	m.decide = failingAt(12, 37)
	m.newRun("run-2")
	batches := f.plan()
	require.Len(t, batches, 1)
	require.EqualValues(t, 12, f.process(batches[0]).FirstError.Item)
}
