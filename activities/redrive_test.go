package activities

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// outcomeOf is what a modelled item has come to.
type outcomeOf struct {
	result string
	drop   bool
	fault  *Fault
	tries  int
}

// model runs jobs and their redrives, and knows what must come of them.
type model struct {
	*fixture
	form   Form
	decide func(ordinal int64) outcomeOf // of the next execution of an item

	runs     int
	ordinals map[string]int64 // by the data that the handler got in the first run
	results  map[int64]string // of the items that have one
	failed   map[int64]job.Failure
	never    map[int64]bool // failed items that are not run again
	again    []int64        // what the last run has run, in order
	done     job.Report
}

func newModel(f *fixture, form Form, calls int) *model {
	m := &model{
		fixture: f, form: form, ordinals: map[string]int64{}, results: map[int64]string{}, failed: map[int64]job.Failure{}, never: map[int64]bool{},
		decide: func(ordinal int64) outcomeOf { return outcomeOf{result: fmt.Sprint("result ", ordinal)} },
	}
	f.serve(&fake{traits: Traits{Form: form}, size: CallSize{Items: calls}, each: m.each}, Options{})
	return m
}

func (m *model) each(c *Call, item Item) {
	data := string(item.Data)
	if !json.Valid(item.Data) && m.form == JSONValues {
		c.Answer.Fail(&Fault{Kind: job.KindInvalid, Err: job.Error{Message: "no JSON"}}, 1)
		return
	}
	ordinal, known := m.ordinals[data]
	switch {
	case m.redrive == nil:
		require.False(m.t, known, "the test's items must differ: %q", data)
		ordinal = item.Ordinal
		m.ordinals[data] = ordinal
	default:
		require.True(m.t, known, "an item comes in the bytes that it had: %q", data)
	}
	m.again = append(m.again, ordinal)
	o := m.decide(ordinal)
	switch before := m.failed[ordinal]; {
	case o.fault != nil:
		c.Answer.Fail(o.fault, o.tries)
		before.Kind, before.Error, before.Attempts = o.fault.Kind, o.fault.Err, before.Attempts+o.tries
		m.failed[ordinal] = before
		return
	case o.drop:
		c.Answer.Drop()
	default:
		c.Answer.Line([]byte(o.result))
		m.results[ordinal] = o.result
	}
	delete(m.failed, ordinal)
}

// run runs the job, or redrives it, and checks all there is to see of it.
func (m *model) run() FinishResult {
	m.t.Helper()
	return m.finishRun(m.begin()...)
}

// begin runs all but Finish, and returns the heads.
func (m *model) begin() []string {
	m.t.Helper()
	m.runs++
	m.newRun(fmt.Sprintf("run-%d", m.runs))
	m.again = nil
	return m.goOn()
}

func (m *model) goOn(resume ...string) []string {
	m.t.Helper()
	batches := m.plan(resume...)
	if len(batches) == 0 {
		return resume
	}
	return []string{m.commit(resume, m.processAll(batches)...)}
}

func (m *model) finishRun(heads ...string) FinishResult {
	m.t.Helper()
	result := m.finish(heads...)
	m.finished(result, heads)
	return result
}

// finished takes in what Finish has told, and checks it. The next run is a redrive.
func (m *model) finished(result FinishResult, heads []string) {
	m.t.Helper()
	if m.redrive != nil {
		require.EqualValues(m.t, len(m.again), m.next.Item)
		heads = result.Manifests
	}
	m.done = job.Report{
		Job: m.spec.Name, Run: m.ref.Run, Store: m.spec.Store, Manifests: heads, State: job.Completed,
		Planned: result.Books.Items, Output: &result.Output,
	}
	m.check(result)
	m.redrive = &job.Redrive{Manifests: heads, Output: result.Output, Planned: result.Books.Items, Runs: []string{m.ref.Run}}
}

func (m *model) check(result FinishResult) {
	m.t.Helper()
	failures := m.records()
	if m.redrive == nil { // what the records name, and who cannot be run again, shows here
		for _, f := range failures {
			_, ran := m.failed[f.Item]
			m.never[f.Item] = !ran
			m.failed[f.Item] = f
		}
	}
	want := []job.Failure{}
	for _, ordinal := range slices.Sorted(maps.Keys(m.failed)) {
		want = append(want, m.failed[ordinal])
	}
	require.Equal(m.t, want, failures, "errors that remain, as the job had named them")
	text := ""
	for _, ordinal := range slices.Sorted(maps.Keys(m.results)) {
		text += m.results[ordinal] + "\n"
	}
	got, next := m.printed(false)
	require.Equal(m.t, text, got, "in input order")
	require.EqualValues(m.t, result.Books.Items, next)
	require.Equal(m.t, sumOf(text), result.Output.Checksum)
	require.EqualValues(m.t, len(text), result.Output.Bytes)
	require.EqualValues(m.t, len(m.failed), result.Books.Failed)
	require.EqualValues(m.t, len(m.results), result.Books.OK-result.Books.Dropped)
	require.EqualValues(m.t, result.Books.Items, result.Books.OK+result.Books.Failed)
	if m.redrive != nil && len(want) > 0 {
		require.Equal(m.t, want[0].Item, result.FirstError.Item)
	}
}

func (m *model) printed(errorRecords bool) (string, int64) {
	m.t.Helper()
	return m.fixture.results(m.done, errorRecords, 0)
}

// records reads the error records, and makes sure that the errors file has the same.
func (m *model) records() []job.Failure {
	m.t.Helper()
	text, _ := m.printed(true)
	if m.spec.Errors != "" {
		require.Equal(m.t, text, m.fetch(m.spec.Errors), "the errors file")
	}
	found := []job.Failure{}
	dec := json.NewDecoder(strings.NewReader(text))
	for dec.More() {
		var f job.Failure
		require.NoError(m.t, dec.Decode(&f))
		found = append(found, f)
	}
	return found
}

// requireSwept fails where the store holds what a merged state does not need.
func (m *model) requireSwept() {
	m.t.Helper()
	links, err := chain(m.t.Context(), m.store(), m.done.Manifests)
	require.NoError(m.t, err)
	needed := map[string]bool{currentKey: true, m.ref.doneKey(): true}
	for _, l := range links {
		needed[l.key], needed[l.Sources] = true, true
		require.Equal(m.t, m.ref.Run, l.Run)
		require.True(m.t, strings.HasPrefix(l.Sources, m.ref.Run+"/"), "the source table is the redrive's own")
	}
	require.NoError(m.t, entries(m.t.Context(), m.store(), links, func(e ownedEntry) error {
		needed[resultsKey(e.run, e.Entry)], needed[errorsKey(e.run, e.Entry)] = true, true
		return nil
	}))
	for _, key := range m.keys("") {
		inOutput := key == partsList || key == "errors.jsonl"
		require.True(m.t, needed[key] || inOutput, "nothing needs %s", key)
	}
}

// failingAt makes the items with these ordinals fail.
func failingAt(ordinals ...int64) func(int64) outcomeOf {
	return func(ordinal int64) outcomeOf {
		if slices.Contains(ordinals, ordinal) {
			return outcomeOf{fault: &Fault{Kind: job.KindError, Err: job.Error{Type: "T", Message: fmt.Sprint("item ", ordinal)}}, tries: 1}
		}
		return outcomeOf{result: fmt.Sprint("result ", ordinal)}
	}
}

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
				f := setup(t, "in.jsonl", lines(40))
				f.spec = job.Spec{Name: "test", Pool: "pool", Input: f.spec.Input, BatchItems: 8, Store: f.path("store")}
				if output != "" {
					f.spec.Output, f.spec.Store = f.path(output), ""
					if output == "out/" {
						f.spec.Output += "/"
					}
				}
				m := newModel(f, Lines, 3)
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

// fetch reads a file or object; missing is "".
func (m *model) fetch(location string) string {
	if location == "" {
		return ""
	}
	return m.fixture.fetch(location)
}

func TestRedrive_DropsStayDrops(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", lines(30))
	f.spec.BatchItems = 6
	m := newModel(f, Lines, 4)
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

// spoilable makes n items of a format, each with another number, in forms that are easily spoilt, and some
// that are no items.
func spoilable(random *rand.Rand, format records.Format, from, n int) string {
	var b strings.Builder
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	if format == records.CSV {
		b.WriteString("id,base64\n")
	}
	for i := from; i < from+n; i++ {
		odd := pick("", "<&>", "\u2028", "é", `\u00e9`, "\ufeff", "\x7f")
		switch format {
		case records.CSV:
			fmt.Fprintf(&b, "%s%s", pick("", "", "", "bad,", "\xff"), fmt.Sprintf(`%d,"%s"`, i, pick("", odd, "a,b", "two\nlines", `say ""so""`, "\r\n")))
		case records.JSONL:
			b.WriteString(pick("", "", " ", "\t"))
			fmt.Fprintf(&b, pick(`{"id":%d,"t":"%s"}`, `{ "id" : %d, "t":"%s" }`, `[%d,"%s"]`, `"%d %s"`, `{"base64":"%d%s"}`, `{"bad":%d%s`), i, odd)
			b.WriteString(pick("", "", " ", "\r"))
		default:
			fmt.Fprintf(&b, "%s%d %s", pick("", " ", "\ufeff", "\xff\xfe", `"`), i, pick(odd, `{"base64":"aGk="}`, "null", "\x00"))
			b.WriteString(pick("", "\r", " "))
		}
		b.WriteString(pick("\n", "\n", "\n\n"))
		if random.IntN(20) == 0 && format != records.CSV {
			fmt.Fprintf(&b, "\"%s\"\n", strings.Repeat("long", 100))
		}
	}
	return b.String()
}

// Whatever an item's bytes are: it comes to the handler as it did before; what is no item stays failed.
func TestRedrive_SameBytes(t *testing.T) {
	t.Parallel()
	random := seeded(t, 1)
	for round := range 27 {
		format := []records.Format{records.Text, records.JSONL, records.CSV}[round%3]
		form := []Form{Lines, JSONValues, CheckedJSON}[round/3%3]
		if format == records.Text {
			form = Lines // as JSON some could not be called with at all
		}
		input := spoilable(random, format, 0, 40)
		t.Run(fmt.Sprint(round, " ", format), func(t *testing.T) {
			name := map[records.Format]string{records.Text: "in.txt", records.JSONL: "in.jsonl", records.CSV: "in.csv"}[format]
			t.Parallel()
			f := setup(t, name, input)
			f.spec.BatchItems, f.spec.MaxItem = 7, 200
			m := newModel(f, form, 5)
			everything := func(int64) outcomeOf {
				return outcomeOf{fault: &Fault{Kind: job.KindError, Err: job.Error{Message: "no"}}, tries: 1}
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
// stopped and gone on with, the output is what a model says.
func TestRedrive_RandomJobs(t *testing.T) {
	t.Parallel()
	for round := range 80 {
		seed := uint64(round)
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := seeded(t, seed)
			names, inputs := []string{"a.txt", "b.csv", "c.jsonl", "d.jsonl", "e.txt"}, []string{}
			for i, format := range []records.Format{records.Text, records.CSV, records.JSONL, records.JSONL, records.Text} {
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
			m := newModel(f, Lines, 1+random.IntN(7))
			m.randomly(random)
		})
	}
}

// randomly runs a job and its redrives with random outcomes.
func (m *model) randomly(random *rand.Rand) {
	m.t.Helper()
	bad := random.IntN(100)
	m.decide = func(ordinal int64) outcomeOf {
		switch n := random.IntN(100); {
		case n < bad:
			return outcomeOf{fault: &Fault{Kind: job.KindCrash, Err: job.Error{Message: fmt.Sprint(random.IntN(1000))}}, tries: 1 + random.IntN(3)}
		case n%5 == 0:
			return outcomeOf{drop: true}
		case n%7 == 0:
			return outcomeOf{} // an empty line
		}
		return outcomeOf{result: strings.Repeat("r", random.IntN(20)) + fmt.Sprint(ordinal)}
	}
	m.run()
	for range 4 {
		bad = random.IntN(100)
		m.spec.BatchItems = 1 + random.Int64N(12)
		if random.IntN(3) > 0 {
			m.run()
			m.requireSwept()
			continue
		}
		// Stopped: some batches are done, in any order. Another attempt does the others.
		m.runs++
		m.newRun(fmt.Sprintf("run-%d", m.runs))
		m.again = nil
		batches := shuffled(random, m.plan())
		heads := []string(nil)
		if n := random.IntN(len(batches) + 1); n > 0 {
			heads = []string{m.commit(nil, m.processAll(batches[:n])...)}
		}
		m.redrive.Runs = append(m.redrive.Runs, m.ref.Run)
		m.runs++
		m.newRun(fmt.Sprintf("run-%d", m.runs))
		m.finishRun(m.goOn(heads...)...)
		m.requireSwept()
	}
}

// What was no item to the handler that the pool had may be one to that which it has now.
func TestRedrive_ToAHandlerOfAnotherForm(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", "a\n\xff\xfe\nb\n")
	m := newModel(f, JSONValues, 3)
	m.run()
	require.Equal(t, job.KindInvalid, m.failed[1].Kind)
	f.serve(&fake{traits: Traits{Form: Lines}}, Options{})
	m.newRun("run-2")
	result := m.finish(m.goOn()...)
	require.Zero(t, result.Books.Failed)
	require.Equal(t, "result 0\n\xff\xfe\nresult 2\n", f.read("out.jsonl"))
}

func TestRedrive_InABucket(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.inBucket("in.jsonl", lines(100))
	m := newModel(f, Lines, 3)
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
	t.Parallel()
	for _, output := range []string{"out.jsonl", "out/"} {
		for _, remain := range [][]int64{{}, {9}, {3, 9, 10, 39}} { // the last: nothing is won
			t.Run(fmt.Sprint(output, len(remain)), func(t *testing.T) {
				t.Parallel()
				for step := 0; failAtStep(t, output, remain, step); step++ {
				}
			})
		}
	}
}

func failAtStep(t *testing.T, output string, remain []int64, step int) (burnt bool) {
	t.Helper()
	f := setup(t, "in.jsonl", lines(40))
	f.spec.BatchItems = 8
	if output == "out/" {
		f.spec.Output, f.spec.Errors, f.spec.Store = f.path("out")+"/", "", ""
	}
	m := newModel(f, Lines, 3)
	m.decide = failingAt(3, 9, 10, 39)
	m.run()
	before, old := m.done, ""
	old, _ = m.printed(false)
	m.decide = failingAt(remain...)
	heads := m.begin()
	ctx := newFuse(step)
	result, err := f.acts.Finish(ctx, f.finishInput(heads...))
	if !ctx.burnt() {
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
	m.redrive = &job.Redrive{Manifests: before.Manifests, Output: *before.Output, Planned: before.Planned, Runs: []string{before.Run}}
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
			f := setup(t, "in.jsonl", lines(20))
			m := newModel(f, Lines, 3)
			m.decide = failingAt(3, 4)
			m.run()
			m.decide = failingAt()
			m.newRun("run-2")
			intact := f.read("out.jsonl")
			c.change(t, f.path("out.jsonl"))
			_, err := f.acts.Plan(t.Context(), PlanInput{Ref: f.ref, Spec: f.spec, Redrive: m.redrive, Batches: 16})
			if c.atPlan {
				requireType(t, err, job.ErrorCorrupt)
				require.ErrorContains(t, err, f.path("out.jsonl"))
				require.ErrorContains(t, err, c.says)
			}
			f.write("out.jsonl", intact)
			heads := m.begin()
			c.change(t, f.path("out.jsonl"))
			changed, _ := os.ReadFile(f.path("out.jsonl"))
			_, err = f.acts.Finish(t.Context(), f.finishInput(heads...))
			requireType(t, err, job.ErrorCorrupt)
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

// A newer run of the job is not undone by a redrive that comes too late.
func TestRedrive_CannotOvertake(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", lines(20))
	m := newModel(f, Lines, 3)
	m.decide = failingAt(3, 4)
	m.run()
	before := f.read("out.jsonl")
	m.decide = failingAt()
	heads := m.begin()
	require.NoError(t, f.store().Claim(t.Context(), currentKey, "run-9"))
	_, err := f.acts.Finish(t.Context(), f.finishInput(heads...))
	requireType(t, err, job.ErrorFenced)
	require.Equal(t, before, f.read("out.jsonl"))
	require.FileExists(t, f.path("out.jsonl.errors.jsonl"))
}

// The first error that a redrive tells names the item as the job does, also before the merge.
func TestRedrive_FirstErrorNamesTheJobsItem(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", lines(40))
	f.spec.BatchItems = 8
	m := newModel(f, Lines, 3)
	m.decide = failingAt(11, 12, 37)
	m.run()
	m.decide = failingAt(12, 37)
	m.newRun("run-2")
	batches := f.plan()
	require.Len(t, batches, 1)
	require.EqualValues(t, 12, f.process(batches[0]).FirstError.Item)
}
