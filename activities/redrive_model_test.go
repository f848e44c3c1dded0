package activities

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// outcomeOf is what a modelled item has come to.
type outcomeOf struct {
	result string
	lines  []string // of a list, if the job flattens them; nil: result is the answer
	drop   bool
	fault  *calls.Fault
	tries  int
}

// model runs jobs and their redrives, and knows what must come of them.
type model struct {
	*fixture
	form   calls.Form
	decide func(ordinal int64) outcomeOf // of the next execution of an item

	runs     int
	ordinals map[string]int64 // by the data that the handler got in the first run
	results  map[int64]string // of the items that have one, or several: their lines
	drops    map[int64]string // of the items that have none: themselves
	failed   map[int64]job.Failure
	never    map[int64]bool // failed items that are not run again
	again    []int64        // what the last run has run, in order
	done     job.Report
}

func newModel(f *fixture, form calls.Form, callItems int) *model {
	m := &model{
		fixture: f, form: form, ordinals: map[string]int64{}, results: map[int64]string{}, drops: map[int64]string{}, failed: map[int64]job.Failure{}, never: map[int64]bool{},
		decide: func(ordinal int64) outcomeOf { return outcomeOf{result: fmt.Sprint("result ", ordinal)} },
	}
	f.serve(&callstest.Handler{As: calls.Traits{Form: form}, Size: calls.CallSize{Items: callItems}, Each: m.each}, Options{})
	return m
}

func (m *model) each(c *calls.Call, item calls.Item) {
	data := string(item.Data)
	if !json.Valid(item.Data) && m.form == calls.JSONValues {
		c.Answer.Fail(&calls.Fault{Kind: job.KindInvalid, Err: job.Error{Message: "no JSON"}}, 1)
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
		m.drops[ordinal] = data + "\n"
	case o.lines != nil:
		c.Answer.Line([]byte("[ " + strings.Join(o.lines, ",\t") + "]"))
		m.results[ordinal] = jobLines(o.lines)
	case m.spec.Flatten:
		c.Answer.Line([]byte(o.result))
		before.Kind, before.Attempts = job.KindInvalid, before.Attempts+1
		before.Error = job.Error{Type: "Invalid", Message: "the handler's answer is not JSON, and the job flattens lists: answer with a JSON list, [] for no result"}
		m.failed[ordinal] = before
		return
	default:
		c.Answer.Line([]byte(o.result))
		m.results[ordinal] = o.result + "\n"
	}
	delete(m.failed, ordinal)
}

// run runs the job, or redrives it, and checks all there is to see of it.
func (m *model) run() wire.FinishResult {
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

func (m *model) finishRun(heads ...string) wire.FinishResult {
	m.t.Helper()
	result := m.finish(heads...)
	m.finished(result, heads)
	return result
}

// finished takes in what Finish has told, and checks it. The next run is a redrive.
func (m *model) finished(result wire.FinishResult, heads []string) {
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

func (m *model) check(result wire.FinishResult) {
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
		text += m.results[ordinal]
	}
	got, next := m.printed(false)
	require.Equal(m.t, text, got, "in input order")
	require.EqualValues(m.t, result.Books.Items, next)
	whole := text
	if outputs.Encoding(m.spec.Output) != nil {
		data, err := os.ReadFile(m.spec.Output)
		require.NoError(m.t, err)
		whole = string(data)
		require.Equal(m.t, text, m.fetch(m.spec.Output))
	}
	require.Equal(m.t, sumOf(whole), result.Output.Checksum)
	require.EqualValues(m.t, len(whole), result.Output.Bytes)
	m.checkFiles(result, text)
	require.EqualValues(m.t, len(m.failed), result.Books.Failed)
	require.EqualValues(m.t, len(m.drops), result.Books.Dropped)
	require.EqualValues(m.t, len(m.results), result.Books.OK-result.Books.Dropped)
	require.EqualValues(m.t, result.Books.Items, result.Books.OK+result.Books.Failed)
	if m.redrive != nil && len(want) > 0 {
		require.Equal(m.t, want[0].Item, result.FirstError.Item)
	}
}

// checkFiles checks the file of dropped items, and those that the results, which are text, are split into.
func (m *model) checkFiles(result wire.FinishResult, text string) {
	m.t.Helper()
	lines := int64(0)
	if m.spec.Flatten {
		lines = int64(strings.Count(text, "\n"))
	}
	require.Equal(m.t, lines, result.Books.Lines)
	if m.spec.Dropped != "" {
		drops := ""
		for _, ordinal := range slices.Sorted(maps.Keys(m.drops)) {
			drops += m.drops[ordinal]
		}
		require.Equal(m.t, drops, m.fetch(m.spec.Dropped))
		require.Equal(m.t, drops != "", result.Output.Dropped != "")
	}
	if m.spec.Split != "" {
		require.Equal(m.t, splitByHand(text, m.spec.SplitField()), m.splitFiles())
		require.Equal(m.t, len(m.splitFiles()), result.Output.Files)
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
	links, err := ledger.Chain(m.t.Context(), m.store(), m.done.Manifests)
	require.NoError(m.t, err)
	needed := map[string]bool{ledger.CurrentKey: true, m.ref.DoneKey(): true, "SPLIT": true}
	for _, l := range links {
		needed[l.Key], needed[l.Sources] = true, true
		require.Equal(m.t, m.ref.Run, l.Run)
		require.True(m.t, strings.HasPrefix(l.Sources, m.ref.Run+"/"), "the source table is the redrive's own")
	}
	require.NoError(m.t, ledger.Entries(m.t.Context(), m.store(), links, func(e ledger.OwnedEntry) error {
		needed[ledger.ResultsKey(e.Owner, e.Entry)], needed[ledger.ErrorsKey(e.Owner, e.Entry)] = true, true
		return nil
	}))
	for _, key := range m.keys("") {
		inOutput := key == outputs.PartsList || key == "errors.jsonl"
		require.True(m.t, needed[key] || inOutput, "nothing needs %s", key)
	}
}

// failingAt makes the items with these ordinals fail.
func failingAt(ordinals ...int64) func(int64) outcomeOf {
	return func(ordinal int64) outcomeOf {
		if slices.Contains(ordinals, ordinal) {
			return outcomeOf{fault: &calls.Fault{Kind: job.KindError, Err: job.Error{Type: "T", Message: fmt.Sprint("item ", ordinal)}}, tries: 1}
		}
		return outcomeOf{result: fmt.Sprintf(`{"result":%d,"k":%d}`, ordinal, ordinal%4)}
	}
}

// fetch reads a file or object; missing is "".
func (m *model) fetch(location string) string {
	if location == "" {
		return ""
	}
	return m.fixture.fetch(location)
}

// spoilable makes n items of a format, each with another number, in forms that are easily spoilt, and some
// that are no items.
func spoilable(random *rand.Rand, format wire.Format, from, n int) string {
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
		if format == records.Text {
			b.WriteString("\n") // an empty line would be an item, like others
		} else {
			b.WriteString(pick("\n", "\n", "\n\n"))
		}
		if random.IntN(20) == 0 && format != records.CSV {
			fmt.Fprintf(&b, "\"%s\"\n", strings.Repeat("long", 100))
		}
	}
	return b.String()
}

// randomly runs a job and its redrives with random outcomes.
func (m *model) randomly(random *rand.Rand) {
	m.t.Helper()
	bad := random.IntN(100)
	m.decide = func(ordinal int64) outcomeOf {
		switch n := random.IntN(100); {
		case n < bad:
			kind, typ := []string{job.KindCrash, job.KindError, job.KindExpired}[random.IntN(3)], []string{"", "A", "Bc"}[random.IntN(3)]
			return outcomeOf{fault: &calls.Fault{Kind: kind, Err: job.Error{Type: typ, Message: fmt.Sprint(random.IntN(1000))}}, tries: 1 + random.IntN(3)}
		case n%5 == 0:
			return outcomeOf{drop: true}
		case m.spec.Flatten && n%7 > 0:
			lines := []string{}
			for range random.IntN(4) {
				lines = append(lines, splittable(random, ordinal))
			}
			return outcomeOf{lines: lines}
		case m.spec.Flatten:
			return outcomeOf{} // not a list
		case m.spec.Split != "":
			return outcomeOf{result: splittable(random, ordinal)}
		case n%7 == 0:
			return outcomeOf{} // an empty line
		}
		return outcomeOf{result: strings.Repeat("r", random.IntN(20)) + fmt.Sprint(ordinal)}
	}
	m.run()
	for range 4 {
		bad = random.IntN(100)
		m.spec.BatchItems = 1 + random.Int64N(12)
		want := m.choose(random)
		if random.IntN(3) > 0 {
			m.run()
			m.requireSwept()
			require.ElementsMatch(m.t, want, m.again, "those that the expression selects, and no others")
			continue
		}
		// Stopped: some batches are done, in any order. Another attempt does the others.
		m.runs++
		m.newRun(fmt.Sprintf("run-%d", m.runs))
		m.again = nil
		batches := jobtest.Shuffled(random, m.plan())
		heads := []string(nil)
		if n := random.IntN(len(batches) + 1); n > 0 {
			heads = []string{m.commit(nil, m.processAll(batches[:n])...)}
		}
		m.redrive.Runs = append(m.redrive.Runs, m.ref.Run)
		m.runs++
		m.newRun(fmt.Sprintf("run-%d", m.runs))
		m.finishRun(m.goOn(heads...)...)
		m.requireSwept()
		require.ElementsMatch(m.t, want, m.again, "each once, over all attempts")
	}
}

// choose gives the redrive to come an expression, or none, and returns the items that it must run.
func (m *model) choose(random *rand.Rand) []int64 {
	selects := func(job.Failure) bool { return true }
	for range random.IntN(3) {
		letter, n := fmt.Sprint(random.IntN(10)), random.IntN(7)
		one := []struct {
			where string
			holds func(f job.Failure) bool
		}{
			{"kind=crash,expired", func(f job.Failure) bool { return f.Kind == "crash" || f.Kind == "expired" }},
			{"kind!=crash", func(f job.Failure) bool { return f.Kind != "crash" }},
			{"type=A", func(f job.Failure) bool { return f.Error.Type == "A" }},
			{"type=B*,A", func(f job.Failure) bool { return f.Error.Type == "Bc" || f.Error.Type == "A" }},
			{"message=" + letter, func(f job.Failure) bool { return strings.Contains(f.Error.Message, letter) }},
			{fmt.Sprint("attempts>", n), func(f job.Failure) bool { return f.Attempts > n }},
			{"source=*.jsonl", func(f job.Failure) bool { return strings.HasSuffix(f.Source, ".jsonl") }},
			{"kind=lost", func(job.Failure) bool { return false }},
		}[random.IntN(8)]
		before := selects
		selects = func(f job.Failure) bool { return before(f) && one.holds(f) }
		m.redrive.Where = job.Where(strings.TrimSpace(string(m.redrive.Where) + " " + one.where))
	}
	m.t.Logf("where %q", m.redrive.Where)
	want := []int64{}
	for ordinal, f := range m.failed {
		if !m.never[ordinal] && selects(f) {
			want = append(want, ordinal)
		}
	}
	return want
}
