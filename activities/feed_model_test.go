package activities

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// sent is v as it arrives at the other end of Temporal.
func sent[T any](t testing.TB, v T) T {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	var got T
	require.NoError(t, json.Unmarshal(data, &got))
	return got
}

// feedModel runs a feed over some runs, and knows what must come of it: an item that is not discarded has the outcome
// that its value decides.
type feedModel struct {
	*fixture
	random *rand.Rand
	healed bool // failing items succeed now

	values    []string // by ordinal
	session   []int64
	discarded map[int64]bool
	done      map[int64]bool // accepted outcomes
	current   int64          // session
	heads     []string
	ran       map[string]int
}

// outcome is a value's: one of result, drop and fail.
func (m *feedModel) outcome(value string) (result string, drop, fail bool) {
	switch {
	case strings.Contains(value, "drop"):
		return "", true, false
	case strings.Contains(value, "fail") && !m.healed:
		return "", false, true
	case strings.Contains(value, "large"):
		return strings.Repeat("<&>", 8000) + value, false, false
	}
	return "r" + value, false, false
}

func (m *feedModel) each(c *calls.Call, item calls.Item) {
	var value string
	if err := json.Unmarshal(item.Data, &value); err != nil {
		value = string(item.Data) // a line
	}
	m.ran[value]++
	result, drop, fail := m.outcome(value)
	switch {
	case drop:
		c.Answer.Drop()
	case fail:
		c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Type: "T", Message: value}}, 1)
	default:
		c.Answer.Line([]byte(result))
	}
}

func newFeedModel(t *testing.T, random *rand.Rand) *feedModel {
	f := setup(t)
	f.spec = job.Spec{Name: "test", Pool: "pool", Feed: &job.Feed{}, Format: []string{"jsonl", "text"}[random.IntN(2)]}
	f.spec.Output = f.path([]string{"out", "out/"}[random.IntN(2)])
	if random.IntN(2) == 0 {
		f.spec.Output, f.spec.Store = f.dir+"/out/", ""
	}
	if random.IntN(3) == 0 {
		f.spec.BatchItems = 1 + random.Int64N(5)
	}
	if random.IntN(4) == 0 {
		f.spec.OnError = job.OnErrorDrop
	}
	m := &feedModel{fixture: f, random: random, discarded: map[int64]bool{}, done: map[int64]bool{}, current: 1, ran: map[string]int{}}
	form := []calls.Form{calls.Lines, calls.JSONValues, calls.CheckedJSON}[random.IntN(3)]
	f.serve(&callstest.Handler{As: calls.Traits{Form: form}, Size: calls.CallSize{Items: 1 + random.IntN(4)}, Each: m.each}, Options{})
	return m
}

// put accepts n new items, and returns their values in JSON.
func (m *feedModel) put(n int) (first int64, items []json.RawMessage) {
	first = int64(len(m.values))
	for range n {
		kind := []string{"", "", "", "drop", "fail", "large", "<é&>"}[m.random.IntN(7)]
		value := fmt.Sprintf("%s %d", kind, len(m.values))
		m.values, m.session = append(m.values, value), append(m.session, m.current)
		items = append(items, m.item(int64(len(m.values)-1)))
	}
	return first, items
}

func (m *feedModel) item(ordinal int64) json.RawMessage {
	data, err := json.Marshal(m.values[ordinal])
	require.NoError(m.t, err)
	return data
}

// processFeed runs a batch of the feed, rests included.
func (m *feedModel) processFeed(b wire.Batch) (all []wire.FeedEntry) {
	m.t.Helper()
	for rest := &b; rest != nil; {
		in := m.input(*rest)
		in.Format, in.OnError, in.MaxItem = m.spec.Format, m.spec.OnError, m.spec.MaxItem
		for i := range rest.Count {
			in.Items = append(in.Items, m.item(rest.First+i))
		}
		in.Take = m.random.Int64N(rest.Count + 1)
		result, err := m.acts.Process(m.t.Context(), sent(m.t, in))
		require.NoError(m.t, err)
		result = sent(m.t, result)
		e := wire.FeedEntry{Entry: result.Entry, Inline: result.Inline}
		e.Session = m.session[e.First]
		require.Equal(m.t, result.Inline == nil, e.Part != "")
		if result.Inline != nil {
			m.checkOutcomes(e)
		}
		all, rest = append(all, e), result.Rest
	}
	return all
}

// checkOutcomes compares outcomes, one by one, with those that the values decide.
func (m *feedModel) checkOutcomes(e wire.FeedEntry) {
	m.t.Helper()
	outcomes, err := e.Inline.Outcomes(e.Count)
	require.NoError(m.t, err)
	for i, o := range outcomes {
		result, drop, fail := m.outcome(m.values[e.First+int64(i)])
		require.Equal(m.t, fail, o.Failure != nil)
		if !drop && !fail {
			require.Equal(m.t, result, string(o.Result))
		}
	}
}

// commitFeed commits, and the manifest becomes a head. It may leave earlier heads to the next ones.
func (m *feedModel) commitFeed(in wire.CommitFeedInput) {
	m.t.Helper()
	in.Ref, in.Format = m.ref, ""
	if len(in.Unfinished) > 0 {
		in.Format = "jsonl"
		if m.spec.Format == "text" {
			in.Format = "text"
		}
	}
	keep := m.random.IntN(len(m.heads) + 1)
	in.Previous, m.heads = slices.Clone(m.heads[keep:]), slices.Clone(m.heads[:keep])
	result, err := m.acts.CommitFeed(m.t.Context(), sent(m.t, in))
	require.NoError(m.t, err)
	m.heads = append(m.heads, result.Manifest)
	for _, e := range in.Entries {
		m.mark(e.Entry)
	}
}

func (m *feedModel) mark(e wire.Entry) {
	for ordinal := e.First; ordinal < e.End(); ordinal++ {
		require.False(m.t, m.done[ordinal] || m.discarded[ordinal])
		m.done[ordinal] = true
	}
}

// unfinished are the accepted items without an outcome.
func (m *feedModel) unfinished() (all []int64) {
	for ordinal := range int64(len(m.values)) {
		if !m.done[ordinal] && !m.discarded[ordinal] {
			all = append(all, ordinal)
		}
	}
	return all
}

// begin plans the run, and does what earlier ones have left. It returns false if a stop comes before all of that is
// done.
func (m *feedModel) begin() bool {
	m.t.Helper()
	left := m.unfinished()
	var batches []wire.Batch
	in := wire.PlanFeedInput{Ref: m.ref, Spec: m.spec, Resume: m.heads, Batches: 1 + m.random.IntN(4), Accepted: int64(m.random.IntN(len(m.values) + 1))}
	for {
		result, err := m.acts.PlanFeed(m.t.Context(), sent(m.t, in))
		require.NoError(m.t, err)
		result = sent(m.t, result)
		if in.Ref.Sources == "" {
			m.ref.Sources, in.Ref.Sources = result.Sources, result.Sources
			require.EqualValues(m.t, len(left), result.Unfinished)
			require.EqualValues(m.t, len(m.discarded), result.Discarded)
			require.EqualValues(m.t, len(m.done), result.Resumed.Done())
			require.Zero(m.t, result.Lost)
			if len(m.values) > 0 {
				require.Equal(m.t, slices.Max(m.session), result.Session)
			}
		}
		require.EqualValues(m.t, len(m.values), result.Accepted)
		page, err := wire.DecodePage(result.Page)
		require.NoError(m.t, err)
		require.LessOrEqual(m.t, len(page), in.Batches)
		batches = append(batches, page...)
		in.From = result.Next
		if result.Done {
			require.EqualValues(m.t, len(m.values), result.Next.Item)
			break
		}
	}
	var planned []int64
	for _, b := range batches {
		for i := range b.Count {
			planned = append(planned, b.First+i)
		}
	}
	require.Equal(m.t, left, planned)
	stop := m.random.IntN(4) == 0
	for _, b := range jobtest.Shuffled(m.random, batches) {
		if stop && m.random.IntN(2) == 0 {
			continue
		}
		var entries []wire.Entry
		for rest := &b; rest != nil; {
			in := m.input(*rest)
			in.OnError, in.Take = m.spec.OnError, m.random.Int64N(rest.Count+1)
			before := *rest
			result, err := m.acts.Process(m.t.Context(), in)
			require.NoError(m.t, err)
			e := result.Entry
			require.Zero(m.t, e.Source+int(e.Offset+e.Length))
			require.Equal(m.t, m.session[e.First], e.Session)
			entries, rest = append(entries, e), result.Rest
			if rest != nil {
				require.Equal(m.t, before.Offset+before.Length, rest.Offset+rest.Length)
				if stop && m.random.IntN(2) == 0 {
					break
				}
			}
		}
		for _, e := range entries {
			m.mark(e)
		}
		m.heads = []string{m.commit(m.heads, entries...)}
	}
	return !stop || len(m.unfinished()) == 0
}

// feed takes items, runs and discards some, in any order, and commits.
func (m *feedModel) feed(closing bool) {
	m.t.Helper()
	for range m.random.IntN(6) {
		var in wire.CommitFeedInput
		for range m.random.IntN(6) {
			first, items := m.put(1 + m.random.IntN(30))
			b := wire.Batch{First: first, Count: int64(len(items))}.Sealed()
			switch m.random.IntN(5) {
			case 0: // a reset
				in.Discarded = append(in.Discarded, wire.FeedRange{First: b.First, Count: b.Count, Session: m.current})
				for i := range b.Count {
					m.discarded[b.First+i] = true
				}
				m.current++
			case 1: // left for later
			default:
				in.Entries = append(in.Entries, m.processFeed(b)...)
			}
		}
		in.Entries = jobtest.Shuffled(m.random, in.Entries)
		m.commitFeed(in)
	}
	var last wire.CommitFeedInput
	for _, ordinal := range m.unfinished() {
		if closing || m.random.IntN(2) == 0 {
			last.Entries = append(last.Entries, m.processFeed(wire.Batch{First: ordinal, Count: 1}.Sealed())...)
		}
	}
	m.commitFeed(last)
	if closing {
		return
	}
	var spill wire.CommitFeedInput
	for _, ordinal := range m.unfinished() {
		item := m.item(ordinal)
		if n := len(spill.Unfinished); n > 0 && m.random.IntN(3) > 0 {
			if r := &spill.Unfinished[n-1]; r.First+int64(len(r.Items)) == ordinal && r.Session == m.session[ordinal] {
				r.Items = append(r.Items, item)
				continue
			}
		}
		spill.Unfinished = append(spill.Unfinished, wire.FeedItems{First: ordinal, Items: []json.RawMessage{item}, Session: m.session[ordinal]})
	}
	spill.Unfinished = jobtest.Shuffled(m.random, spill.Unfinished)
	for n := len(spill.Unfinished) / 2; n > 0 && m.random.IntN(2) == 0; n = 0 { // in two commits
		rest := spill
		rest.Unfinished, spill.Unfinished = spill.Unfinished[n:], spill.Unfinished[:n]
		m.commitFeed(rest)
	}
	m.commitFeed(spill)
}

// check compares what is published with the model.
func (m *feedModel) check(report job.Report, books wire.Books) {
	m.t.Helper()
	var output bytes.Buffer
	var failed []int64
	var want wire.Books
	for i, value := range m.values {
		want.Items++
		result, drop, fail := m.outcome(value)
		switch {
		case m.discarded[int64(i)]:
			want.Discarded++
			continue
		case fail:
			want.Failed++
			failed = append(failed, int64(i))
			continue
		case drop:
			want.Dropped++
		default:
			fmt.Fprintln(&output, result)
		}
		want.OK++
	}
	got, next := m.results(report, false, 0)
	require.Equal(m.t, output.String(), got)
	require.Equal(m.t, want.Items, next)
	books.Parts, books.Bytes, books.ErrBytes = 0, 0, 0
	require.Equal(m.t, want, books)
	records, _ := m.results(report, true, 0)
	var recorded []int64
	for dec := json.NewDecoder(strings.NewReader(records)); dec.More(); {
		var f job.Failure
		require.NoError(m.t, dec.Decode(&f))
		require.Equal(m.t, "feed test", f.Source)
		require.JSONEq(m.t, string(m.item(f.Item)), string(f.Input))
		recorded = append(recorded, f.Item)
	}
	if m.spec.OnError == job.OnErrorDrop {
		failed = nil
	}
	require.Equal(m.t, failed, recorded)
	if len(failed) == 0 {
		require.Empty(m.t, report.Output.Errors)
	} else {
		require.Equal(m.t, records, m.fetch(report.Output.Errors))
	}
}

// A feed over stops, resets and commits in any order and grouping publishes exactly what its items decide, and its
// failed items can be run again.
func TestFeed_Model(t *testing.T) {
	t.Parallel()
	base := rand.Uint64()
	schedules := 60
	if testing.Short() {
		schedules = 15
	}
	for i := range schedules {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, base+uint64(i))
			m := newFeedModel(t, random)
			for run := 1; ; run++ {
				m.newRun(fmt.Sprintf("run-%d", run))
				closing := run > random.IntN(5)
				if !m.begin() {
					continue
				}
				m.feed(closing)
				if closing {
					break
				}
			}
			m.next.Item = int64(len(m.values))
			for ordinal, value := range m.values {
				want := 1
				if m.discarded[int64(ordinal)] {
					want = 0
				}
				require.Equal(t, want, m.ran[value], "%s", value)
			}
			result := m.finish(m.heads...)
			again := m.finish(m.heads...)
			require.Equal(t, result, again)
			report := m.report(m.heads...)
			report.State, report.Output = job.Completed, &result.Output
			m.check(report, result.Books)
			for _, key := range m.keys("") {
				require.NotContains(t, key, "spill-", "all is done")
			}
			if m.spec.OnError == job.OnErrorDrop || result.Books.Failed == 0 {
				return
			}
			m.healed = true
			m.newRun("run-redrive")
			m.redrive = &job.Redrive{Manifests: m.heads, Output: result.Output, Planned: result.Books.Items, Runs: []string{"run-1", m.ref.Run}}
			batches := m.plan()
			heads := []string{m.commit(nil, m.processAll(batches)...)}
			redriven := m.finish(heads...)
			require.Equal(t, result.Books.Failed, redriven.Redriven)
			report.Manifests, report.Output, report.Run = redriven.Manifests, &redriven.Output, m.ref.Run
			m.check(report, redriven.Books)
			for ordinal := range m.discarded {
				require.Zero(t, m.ran[m.values[ordinal]], "a discarded item is not run again")
			}
		})
	}
}
