package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
)

// setupFeed returns a fixture of a feed whose handler gets items in a form, and answers each with itself.
func setupFeed(t *testing.T, form calls.Form) *fixture {
	t.Helper()
	f := setup(t)
	f.spec = job.Spec{Name: "risk", Pool: "pool", Feed: &job.Feed{}, Output: f.dir + "/out/"}.WithDefaults()
	f.serve(&callstest.Handler{As: calls.Traits{Form: form}}, Options{})
	f.newRun("run-1")
	return f
}

// feedInput is a batch of items in JSON.
func (f *fixture) feedInput(first int64, items ...string) wire.ProcessInput {
	in := f.input(wire.Batch{First: first, Count: int64(len(items))}.Sealed())
	in.Format, in.MaxItem = f.spec.Format, f.spec.MaxItem
	for _, item := range items {
		in.Items = append(in.Items, json.RawMessage(item))
	}
	return in
}

func (f *fixture) processInput(in wire.ProcessInput) wire.ProcessResult {
	f.t.Helper()
	result, err := f.acts.Process(f.t.Context(), in)
	require.NoError(f.t, err)
	return result
}

// texts are results, or the messages of failures.
func texts(t *testing.T, r wire.ProcessResult) (all []string) {
	t.Helper()
	require.NotNil(t, r.Inline)
	outcomes, err := r.Inline.Outcomes(r.Entry.Count)
	require.NoError(t, err)
	for _, o := range outcomes {
		if o.Failure != nil {
			all = append(all, o.Failure.Kind+": "+o.Failure.Error.Message)
		} else {
			all = append(all, string(o.Result))
		}
	}
	return all
}

// B4: a feed's items are answered inline, each by its ordinal, and nothing is written.
func TestFeed_AnswersInline(t *testing.T) {
	t.Parallel()
	for _, form := range []calls.Form{calls.Lines, calls.JSONValues, calls.CheckedJSON} {
		f := setupFeed(t, form)
		r := f.processInput(f.feedInput(40, `{"a": 1}`, ` null `, "[1,\n2]", `"<b>"`))
		require.Equal(t, []string{`{"a":1}`, `null`, `[1,2]`, `"<b>"`}, texts(t, r), "a value is one compact line")
		require.Equal(t, wire.Batch{First: 40, Count: 4}.Sealed(), r.Entry.Batch)
		require.Empty(t, r.Entry.Part)
		require.Nil(t, r.Rest)
		require.EqualValues(t, 8+6+6+5, r.Totals.InputBytes)
		require.NoError(t, ledger.CheckInline(r.Inline, r.Entry))
		require.NoDirExists(t, f.spec.Store, "the store is not opened")
	}
}

// Callers wait for the results of a feed's batch: it is reported at once, and not together with others.
func TestFeed_ReportsAtOnce(t *testing.T) {
	t.Parallel()
	f := setupFeed(t, calls.Lines)
	slots := &reporting{}
	f.serve(&callstest.Handler{}, Options{Slots: slots})
	f.processInput(f.feedInput(0, `1`))
	require.Zero(t, slots.reports)
	file := setup(t, "in.jsonl", jobtest.Lines(1))
	file.serve(&callstest.Handler{}, Options{Slots: slots})
	file.process(file.plan()[0])
	require.Equal(t, 1, slots.reports)
}

// reporting counts the batches that wait to be reported.
type reporting struct {
	calls.AnySlot
	reports int
}

func (r *reporting) Take(ctx context.Context, o calls.Occupant) (calls.Slot, error) {
	slot, err := r.AnySlot.Take(ctx, o)
	return reportingSlot{slot, r}, err
}

type reportingSlot struct {
	calls.Slot
	of *reporting
}

func (s reportingSlot) Report(context.Context) { s.of.reports++ }

// A text item is a line of a text file: what is none is its own failure, not the batch's.
func TestFeed_TextItems(t *testing.T) {
	t.Parallel()
	for form, first := range map[calls.Form]string{calls.Lines: "one é", calls.JSONValues: `"one é"`} {
		f := setupFeed(t, form)
		f.spec.Format = "text"
		in := f.feedInput(0, `"one \u00e9"`, `42`, `"two\nlines"`, `""`, `" \t"`, `null`, `["x"]`, `"last"`, ` `)
		r := f.processInput(in)
		got := texts(t, r)
		require.Equal(t, first, got[0])
		require.Equal(t, "last", strings.Trim(got[7], `"`))
		for i, want := range map[int]string{1: "is not a string", 2: "line break", 5: "is not a string", 6: "is not a string", 8: "is not a string"} {
			require.Contains(t, got[i], "invalid: the item ")
			require.Contains(t, got[i], want)
		}
		require.EqualValues(t, 5, r.Entry.Failed)
		for _, line := range r.Inline.Notes {
			require.True(t, line.Never, "it could not be run again")
			require.Equal(t, "feed risk", line.Failure.Source)
			require.Zero(t, line.Failure.Offset)
		}
		require.EqualValues(t, 1, r.FirstError.Item)
	}
}

func TestFeed_ItemsThatAreNone(t *testing.T) {
	t.Parallel()
	f := setupFeed(t, calls.Lines)
	f.spec.MaxItem = 5
	got := texts(t, f.processInput(f.feedInput(0, `12345`, `123456`, `{"a":`, `[1, 2]`)))
	require.Equal(t, "12345", got[0])
	require.Contains(t, got[1], "invalid: the item is 6 bytes long, over the limit of 5 bytes")
	require.Contains(t, got[2], "invalid: the item is not JSON")
	require.Equal(t, "[1,2]", got[3], "its spaces do not count")

	in := f.feedInput(0, `1`)
	in.Batch = in.Batch.Upto(2, 0)
	_, err := f.acts.Process(t.Context(), in)
	jobtest.RequireType(t, err, job.ErrorInvalid)
	in = f.feedInput(0, `1`)
	in.Format = "csv"
	_, err = f.acts.Process(t.Context(), in)
	jobtest.RequireType(t, err, job.ErrorInvalid)
}

// A rest is a suffix of the items, without bytes.
func TestFeed_Rest(t *testing.T) {
	t.Parallel()
	f := setupFeed(t, calls.Lines)
	in := f.feedInput(10, `1`, `2`, `3`, `4`)
	in.Take = 3
	r := f.processInput(in)
	require.Equal(t, []string{"1", "2", "3"}, texts(t, r))
	require.Equal(t, new(wire.Batch{First: 13, Count: 1}.Sealed()), r.Rest)

	for _, done := range []int{0, 2} {
		reached := make(chan struct{})
		f.serve(stopAt(done, reached), Options{})
		ctx, stop := context.WithCancel(t.Context())
		go func() { <-reached; stop() }()
		in.Take, in.Grace = 0, time.Hour
		r, err := f.acts.Process(ctx, in)
		require.NoError(t, err)
		require.EqualValues(t, done, r.Entry.Count)
		require.Equal(t, done > 0, r.Inline != nil)
		require.Equal(t, in.Batch.After(int64(done), 0), *r.Rest)
	}
}

// Outcomes above the limit are in a part, whether results or notes are many, and the answer stays small.
func TestFeed_ManyOutcomesAreInAPart(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"inline": 300, "part": 700} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupFeed(t, calls.Lines)
			f.serve(&callstest.Handler{Each: func(c *calls.Call, item calls.Item) {
				if item.Ordinal%2 == 0 {
					c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Message: strings.Repeat("m", size-100)}}, 1)
				} else {
					c.Answer.Line([]byte(strings.Repeat("r", size)))
				}
			}}, Options{})
			r := f.processInput(f.feedInput(0, strings.Split(strings.Repeat("7 ", 100)[:199], " ")...))
			data, err := json.Marshal(r)
			require.NoError(t, err)
			require.Less(t, len(data), 2*wire.MaxInline)
			require.EqualValues(t, 50, r.Entry.Failed)
			require.EqualValues(t, 50*(size+1), r.Entry.Bytes)
			if name == "inline" {
				require.NoError(t, ledger.CheckInline(r.Inline, r.Entry))
				return
			}
			require.Nil(t, r.Inline)
			require.Equal(t, strings.Repeat(strings.Repeat("r", size)+"\n", 50), f.output(r.Entry))
			lines := f.failures(r.Entry)
			require.Len(t, lines, 50)
			for i, line := range lines {
				require.EqualValues(t, 2*i, line.Failure.Item)
				require.EqualValues(t, i*(size+1), line.At)
			}
		})
	}
}

// wire.Inline outcomes keep every byte over Temporal, whose JSON escapes what is in JSON.
func TestFeed_OutcomesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	f := setupFeed(t, calls.Lines)
	f.serve(&callstest.Handler{Each: func(c *calls.Call, item calls.Item) {
		c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Message: "<&>\u2028"}}, 1)
	}}, Options{})
	r := f.processInput(f.feedInput(0, `"<&>\u003c"`))
	got := sent(t, r)
	require.NoError(t, ledger.CheckInline(got.Inline, got.Entry))
	require.Equal(t, `"<&>\u003c"`, string(got.Inline.Notes[0].Failure.Input))
	require.Equal(t, r.Inline, got.Inline)
}

// S16: with on-error drop the client of an item hears of its failure, and no error record is kept.
func TestFeed_DroppedErrorsAreAnswered(t *testing.T) {
	t.Parallel()
	f := setupFeed(t, calls.Lines)
	f.spec.OnError = job.OnErrorDrop
	f.serve(&callstest.Handler{Each: func(c *calls.Call, item calls.Item) {
		if item.Ordinal == 1 {
			c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Message: "no"}}, 1)
			return
		}
		c.Answer.Line(item.Data)
	}}, Options{})
	f.beginFeed()
	in := f.feedInput(0, `0`, `1`, `2`)
	in.OnError = job.OnErrorDrop
	r := f.processInput(in)
	require.Equal(t, []string{"0", "error: no", "2"}, texts(t, r))
	head := f.commitFeed(wire.CommitFeedInput{Entries: []wire.FeedEntry{{Entry: r.Entry, Inline: r.Inline}}})
	f.next.Item = 3
	report := f.finished(head)
	require.Empty(t, report.Output.Errors)
	require.NoFileExists(t, f.spec.Errors)
	records, _ := f.results(report, true, 0)
	require.Empty(t, records)
}

// beginFeed plans the first page of the run.
func (f *fixture) beginFeed(resume ...string) wire.PlanFeedResult {
	f.t.Helper()
	result, err := f.acts.PlanFeed(f.t.Context(), wire.PlanFeedInput{Ref: f.ref, Spec: f.spec, Resume: resume, Batches: 600})
	require.NoError(f.t, err)
	f.ref.Sources = result.Sources
	return result
}

func (f *fixture) commitFeed(in wire.CommitFeedInput) string {
	f.t.Helper()
	in.Ref = f.ref
	result, err := f.acts.CommitFeed(f.t.Context(), in)
	require.NoError(f.t, err)
	return result.Manifest
}

// feedEntry runs a batch.
func (f *fixture) feedEntry(first int64, items ...string) wire.FeedEntry {
	f.t.Helper()
	r := f.processInput(f.feedInput(first, items...))
	return wire.FeedEntry{Entry: r.Entry, Inline: r.Inline}
}

// Outcomes that a leg cannot take are in a part, also small ones.
func TestFeed_OutcomesOfALargeHistoryAreInAPart(t *testing.T) {
	t.Parallel()
	f := setupFeed(t, calls.Lines)
	f.beginFeed()
	in := f.feedInput(0, `0`, `1`)
	in.Stored = true
	r := f.processInput(in)
	require.Nil(t, r.Inline)
	require.NotEmpty(t, r.Entry.Part)
	require.Equal(t, "0\n1\n", f.output(r.Entry))
	f.next.Item = 2
	require.EqualValues(t, 2, f.finish(f.commitFeed(wire.CommitFeedInput{Entries: []wire.FeedEntry{{Entry: r.Entry}}})).Books.OK)
}

// wire.Inline outcomes that adjoin are one part, of one session each; discarded ones and others are entries of their
// own.
func TestCommitFeed_JoinsNeighbours(t *testing.T) {
	t.Parallel()
	f := setupFeed(t, calls.Lines)
	f.beginFeed()
	second := f.feedEntry(6, `6`)
	second.Session = 2
	in := wire.CommitFeedInput{
		Leg:       3,
		Entries:   []wire.FeedEntry{second, f.feedEntry(2, `2`, `3`), f.feedEntry(9, `9`), f.feedEntry(0, `0`, `1`), f.feedEntry(4, `4`, `5`)},
		Discarded: []wire.FeedRange{{First: 8, Count: 1}, {First: 7, Count: 1}},
	}
	head := f.commitFeed(in)
	require.Nil(t, in.Entries[1].Inline.Notes)
	require.Equal(t, "2\n3\n", string(in.Entries[1].Inline.Results), "what is given stays as it is")
	all := f.gather(head)
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprintf("%d+%d ok %d discarded %d session %d %q", e.First, e.Count, e.OK, e.Discarded, e.Session, f.output(e.Entry)))
		require.Equal(t, e.Discarded == 0, e.Part != "")
	}
	require.Equal(t, []string{
		`0+6 ok 6 discarded 0 session 0 "0\n1\n2\n3\n4\n5\n"`,
		`6+1 ok 1 discarded 0 session 2 "6\n"`,
		`7+2 ok 0 discarded 2 session 0 ""`,
		`9+1 ok 1 discarded 0 session 0 "9\n"`,
	}, got)
	require.Len(t, f.keys("run-1/parts/"), 3)
	f.next.Item = 10
	result := f.finish(head)
	require.Equal(t, wire.Books{Items: 10, OK: 8, Discarded: 2, Parts: 3, Bytes: 16}, result.Books)
}

func TestCommitFeed_Refuses(t *testing.T) {
	t.Parallel()
	f := setupFeed(t, calls.Lines)
	f.beginFeed()
	entry := func() wire.FeedEntry { return f.feedEntry(0, `0`, `1`) }
	item := []json.RawMessage{json.RawMessage(`1`)}
	for name, c := range map[string]struct {
		change func(*wire.FeedEntry, *wire.CommitFeedInput)
		kind   string
	}{
		"other bytes":        {func(e *wire.FeedEntry, _ *wire.CommitFeedInput) { e.Inline.Results[0]++ }, job.ErrorCorrupt},
		"an outcome missing": {func(e *wire.FeedEntry, _ *wire.CommitFeedInput) { e.Batch, e.OK = e.Upto(3, 0), 3 }, job.ErrorCorrupt},
		"other counts":       {func(e *wire.FeedEntry, _ *wire.CommitFeedInput) { e.OK = 1 }, job.ErrorBooks},
		"no outcomes":        {func(e *wire.FeedEntry, _ *wire.CommitFeedInput) { e.Inline = nil }, job.ErrorBooks},
		"in two places":      {func(e *wire.FeedEntry, _ *wire.CommitFeedInput) { e.Part = "x" }, job.ErrorBooks},
		"a range of bytes":   {func(e *wire.FeedEntry, _ *wire.CommitFeedInput) { e.Offset = 1; e.Batch = e.Sealed() }, job.ErrorInvalid},
		"another range":      {func(e *wire.FeedEntry, _ *wire.CommitFeedInput) { e.First++ }, job.ErrorDamaged},
		"discarded, too": {func(_ *wire.FeedEntry, in *wire.CommitFeedInput) {
			in.Discarded = []wire.FeedRange{{First: 1, Count: 1}}
		}, job.ErrorBooks},
		"nothing discarded": {func(_ *wire.FeedEntry, in *wire.CommitFeedInput) { in.Discarded = []wire.FeedRange{{First: 5}} }, job.ErrorBooks},
		"before the first": {func(_ *wire.FeedEntry, in *wire.CommitFeedInput) {
			in.Discarded = []wire.FeedRange{{First: -1, Count: 1}}
		}, job.ErrorBooks},
		"unfinished, too": {func(_ *wire.FeedEntry, in *wire.CommitFeedInput) {
			in.Unfinished = []wire.FeedItems{{First: 1, Items: item}}
		}, job.ErrorBooks},
		"nothing unfinished": {func(_ *wire.FeedEntry, in *wire.CommitFeedInput) { in.Unfinished = []wire.FeedItems{{First: 5}} }, job.ErrorBooks},
		"twice":              {func(e *wire.FeedEntry, in *wire.CommitFeedInput) { in.Entries = append(in.Entries, *e) }, job.ErrorBooks},
		"partly discarded":   {func(e *wire.FeedEntry, _ *wire.CommitFeedInput) { e.OK, e.Discarded = 1, 1 }, job.ErrorBooks},
		"unfinished, no JSON": {func(_ *wire.FeedEntry, in *wire.CommitFeedInput) {
			in.Unfinished = []wire.FeedItems{{First: 5, Items: []json.RawMessage{json.RawMessage(`{`)}}}
		}, job.ErrorInvalid},
	} {
		e := entry()
		in := wire.CommitFeedInput{Ref: f.ref, Format: "jsonl"}
		c.change(&e, &in)
		in.Entries = append(in.Entries, e)
		_, err := f.acts.CommitFeed(t.Context(), in)
		require.Error(t, err, name)
		jobtest.RequireType(t, err, c.kind)
	}
	require.Empty(t, f.keys("run-1/manifests/"))
}

// What a feed's earlier run has left lies in spills, so a batch of it is a range of bytes; its outcomes are in a part.
func TestCommitFeed_ItemsOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	f := setupFeed(t, calls.Lines)
	f.beginFeed()
	b := wire.Batch{Source: 1, Offset: 4, Length: 4, First: 2, Count: 2}.Sealed()
	e := wire.FeedEntry{Entry: wire.Entry{Batch: b, Part: "p", OK: 2, Bytes: 4}}
	result, err := f.acts.CommitFeed(t.Context(), wire.CommitFeedInput{Ref: f.ref, Format: "text", Entries: []wire.FeedEntry{e}})
	require.NoError(t, err)
	require.Len(t, f.keys("run-1/manifests/"), 1)
	require.NotEmpty(t, result.Manifest)
}

// A new feed has a source table and nothing to do; who plans it says what it can run.
func TestPlanFeed_New(t *testing.T) {
	t.Parallel()
	f := setupFeed(t, calls.Lines)
	capacity := wire.Capacity{Slots: 3, Concurrency: 2}
	f.serve(&callstest.Handler{}, Options{Worker: "w", Capacity: func() wire.Capacity { return capacity }})
	result := f.beginFeed()
	require.Equal(t, wire.PlanFeedResult{PlanResult: wire.PlanResult{Done: true, Sources: result.Sources, Worker: "w", Capacity: capacity}}, result)
	table, err := f.acts.inputs.Table(t.Context(), f.store(), result.Sources)
	require.NoError(t, err)
	require.Len(t, table.Sources, 1)
	require.Equal(t, "feed risk", table.Sources[0].URL)
	current, err := f.store().Get(t.Context(), ledger.CurrentKey)
	require.NoError(t, err)
	require.Contains(t, string(current), "run-1")

	older := f.ref
	older.Born, older.Run, older.Sources = 0, "run-0", ""
	_, err = f.acts.PlanFeed(t.Context(), wire.PlanFeedInput{Ref: older, Spec: f.spec, Batches: 1})
	jobtest.RequireType(t, err, job.ErrorFenced)
	f.spec.Errors = f.path("nowhere/errors")
	f.ref.Sources = ""
	_, err = f.acts.PlanFeed(t.Context(), wire.PlanFeedInput{Ref: f.ref, Spec: f.spec, Batches: 1})
	jobtest.RequireType(t, err, job.ErrorOutput)
}

// stopped is a feed that has stopped with items 2 to 5 unfinished, of 8.
func stopped(t *testing.T, format string) (f *fixture, head string) {
	t.Helper()
	f = setupFeed(t, calls.Lines)
	f.spec.Format = format
	f.beginFeed()
	item := func(n int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`" %d "`, n)) }
	head = f.commitFeed(wire.CommitFeedInput{Entries: []wire.FeedEntry{f.feedEntry(0, `"0"`, `"1"`), f.feedEntry(6, `"6"`)}, Discarded: []wire.FeedRange{{First: 7, Count: 1}}})
	head = f.commitFeed(wire.CommitFeedInput{
		Format: "text", Previous: []string{head},
		Unfinished: []wire.FeedItems{{First: 4, Items: []json.RawMessage{item(4), item(5)}}, {First: 2, Items: []json.RawMessage{item(2), item(3)}}},
	})
	return f, head
}

// S12: what a stop has left is run with its ordinals, by an ordinary leg.
func TestPlanFeed_Resumed(t *testing.T) {
	t.Parallel()
	f, head := stopped(t, "text")
	f.newRun("run-2")
	f.spec.BatchItems = 3
	result := f.beginFeed(head)
	require.True(t, result.Done)
	require.EqualValues(t, 8, result.Accepted)
	require.EqualValues(t, 8, result.Next.Item)
	require.EqualValues(t, 4, result.Unfinished)
	require.EqualValues(t, 1, result.Discarded)
	require.EqualValues(t, 3, result.Resumed.OK)
	page, err := wire.DecodePage(result.Page)
	require.NoError(t, err)
	require.Len(t, page, 2)
	require.Equal(t, []int64{2, 3, 5, 1}, []int64{page[0].First, page[0].Count, page[1].First, page[1].Count})
	first := f.process(page[0])
	require.Equal(t, " 2 \n 3 \n 4 \n", f.output(first.Entry))
	require.Equal(t, wire.Batch{First: 2, Count: 3}.Sealed(), first.Entry.Batch)
	head = f.commit([]string{head}, first.Entry)
	for _, key := range []string{"run-1/spill-", "run-2/spill-"} {
		require.Equal(t, strings.HasPrefix(key, "run-1"), len(f.keys(key)) > 0)
	}

	// Stopped again, without another copy: item 5 is found in the first one.
	f.newRun("run-3")
	result = f.beginFeed(head)
	require.EqualValues(t, 1, result.Unfinished)
	page, err = wire.DecodePage(result.Page)
	require.NoError(t, err)
	head = f.commit([]string{head}, f.processAll(page)...)
	require.NotEmpty(t, f.keys("run-1/spill-"))
	f.next.Item = 8
	report := f.finished(head)
	got, _ := f.results(report, false, 0)
	require.Equal(t, "0\n1\n 2 \n 3 \n 4 \n 5 \n6\n", got)
	require.Empty(t, f.keys("run-1/spill-"), "nothing needs it any more")
}

// A feed that has come as far as Finish stays closed, whichever run had published it: its parts are gone.
func TestPlanFeed_Closed(t *testing.T) {
	t.Parallel()
	f := setupFeed(t, calls.Lines)
	f.spec = job.Spec{Name: "risk", Pool: "pool", Feed: &job.Feed{}, Output: f.path("out.jsonl")}
	f.newRun("run-1")
	require.False(t, f.beginFeed().Closed)
	head := f.commitFeed(wire.CommitFeedInput{Entries: []wire.FeedEntry{f.feedEntry(0, `0`, `1`)}})
	f.next.Item = 2
	for _, run := range []string{"run-2", "run-3", "run-4"} {
		f.newRun(run)
		require.Equal(t, run != "run-2", f.beginFeed(head).Closed)
		f.next.Item = 2
		require.EqualValues(t, 2, f.finish(head).Books.OK)
		require.Equal(t, "0\n1\n", f.read("out.jsonl"))
	}
}

// G1, G9: an item that was accepted, and of which the store has nothing, because its leg's history was gone before the
// feed was resumed, holds nothing up: it fails, once, and says so.
func TestPlanFeed_Lost(t *testing.T) {
	t.Parallel()
	for _, drop := range []bool{false, true} {
		t.Run(fmt.Sprint("dropped=", drop), func(t *testing.T) {
			t.Parallel()
			f, head := stopped(t, "text")
			before, err := ledger.ReadHead(t.Context(), f.store(), head)
			require.NoError(t, err)
			require.NoError(t, f.store().Delete(t.Context(), head))
			if drop {
				f.spec.OnError = job.OnErrorDrop
			}
			f.newRun("run-2")
			plan := func(from int64, resume ...string) wire.PlanFeedResult {
				in := wire.PlanFeedInput{Ref: f.ref, Spec: f.spec, Resume: resume, Batches: 10, Accepted: 11}
				in.From.Item = from
				result, err := f.acts.PlanFeed(t.Context(), in)
				require.NoError(t, err)
				return result
			}
			result := plan(0, before.Previous...) // the spill of items 2 to 5 is unknown, and items 8 to 10 are nowhere
			require.EqualValues(t, 7, result.Lost)
			require.EqualValues(t, 7, result.Resumed.Failed)
			require.EqualValues(t, 3, result.Resumed.OK)
			require.Zero(t, result.Unfinished)
			require.EqualValues(t, 11, result.Accepted)
			require.EqualValues(t, 2, result.FirstError.Item)
			require.Equal(t, job.KindLost, result.FirstError.Kind)
			require.Len(t, result.Heads, 1)
			f.ref.Sources = result.Sources
			require.Zero(t, plan(11, result.Heads...).Lost, "they are recorded once")

			f.newRun("run-3")
			again := plan(0, result.Heads...)
			require.Zero(t, again.Lost, "and a further run finds them recorded")
			f.ref.Sources, f.next.Item = again.Sources, 11
			require.EqualValues(t, 7, f.finish(result.Heads...).Books.Failed)
			report := f.finished(result.Heads...)
			records, _ := f.results(report, true, 0)
			if drop {
				require.Empty(t, records)
				return
			}
			require.Equal(t, 7, strings.Count(records, `"input":null,"kind":"lost"`))
			require.Contains(t, records, `"item":10,"source":"feed risk"`)
			require.Contains(t, records, "put it again")
		})
	}
}

// G1: what a leg had committed, although nobody heard of it before its history was gone, is found in the store:
// outcomes once, whichever attempts at commits have left their manifests, and copies of items.
func TestPlanFeed_FindsCommitsThatNobodyHeardOf(t *testing.T) {
	t.Parallel()
	f := setupFeed(t, calls.Lines)
	f.beginFeed()
	first := f.commitFeed(wire.CommitFeedInput{Leg: 1, Entries: []wire.FeedEntry{f.feedEntry(0, `0`, `1`)}})
	second := wire.CommitFeedInput{Leg: 1, Previous: []string{first}, Entries: []wire.FeedEntry{f.feedEntry(2, `2`, `3`), f.feedEntry(6, `6`)}}
	f.commitFeed(second) // an attempt whose result was lost
	heard := f.commitFeed(second)
	again := f.commitFeed(wire.CommitFeedInput{Leg: 1, Entries: []wire.FeedEntry{f.feedEntry(0, `0`, `1`)}}) // another one
	f.commitFeed(wire.CommitFeedInput{Leg: 1, Previous: []string{heard}, Format: "jsonl", Unfinished: []wire.FeedItems{{First: 7, Items: []json.RawMessage{[]byte("7"), []byte("8")}}}})
	f.newRun("run-2")
	f.spec.BatchItems = 10
	result, err := f.acts.PlanFeed(t.Context(), wire.PlanFeedInput{Ref: f.ref, Spec: f.spec, Resume: []string{first}, Batches: 10, Accepted: 10})
	require.NoError(t, err)
	require.EqualValues(t, 3, result.Lost, "items 4, 5 and 9")
	require.EqualValues(t, 5, result.Resumed.OK)
	require.EqualValues(t, 2, result.Unfinished)
	require.Len(t, result.Heads, 1)
	chain, err := ledger.Chain(t.Context(), f.store(), result.Heads)
	require.NoError(t, err)
	require.Len(t, chain, 4)
	for _, l := range chain {
		require.NotEqual(t, again, l.Key)
	}
	f.ref.Sources = result.Sources
	page, err := wire.DecodePage(result.Page)
	require.NoError(t, err)
	head := f.commit(result.Heads, f.processAll(page)...)
	f.next.Item = 10
	books := f.finish(head).Books
	require.EqualValues(t, 7, books.OK)
	require.EqualValues(t, 3, books.Failed)
}

// A copy that is not what was written, or gone, is not run.
func TestPlanFeed_CorruptSpill(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string, data []byte) error{
		"changed": func(path string, data []byte) error { data[1] = '7'; return os.WriteFile(path, data, 0o666) },
		"short":   func(path string, data []byte) error { return os.WriteFile(path, data[:6], 0o666) },
		"gone":    func(path string, _ []byte) error { return os.Remove(path) },
	} {
		f, head := stopped(t, "text")
		key := f.keys("run-1/spill-")[0]
		require.Contains(t, key, "00000000")
		path := f.spec.Store + "/" + key
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, spoil(path, data), name)
		f.newRun("run-2")
		_, err = f.acts.PlanFeed(t.Context(), wire.PlanFeedInput{Ref: f.ref, Spec: f.spec, Resume: []string{head}, Batches: 10})
		jobtest.RequireType(t, err, job.ErrorCorrupt)
		require.ErrorContains(t, err, "reading items 2 to 5, which were copied", name)
	}
}

func TestPlanFeed_OfAnotherKind(t *testing.T) {
	t.Parallel()
	f, head := stopped(t, "text")
	f.newRun("run-2")
	f.spec.Format = "jsonl"
	_, err := f.acts.PlanFeed(t.Context(), wire.PlanFeedInput{Ref: f.ref, Spec: f.spec, Resume: []string{head}, Batches: 1})
	jobtest.RequireType(t, err, job.ErrorInvalid)
	require.ErrorContains(t, err, "resume it with that")

	files := setup(t, "in.jsonl", jobtest.Lines(3))
	head = files.commit(nil, files.processAll(files.plan())...)
	files.newRun("run-2")
	_, err = files.acts.PlanFeed(context.Background(), wire.PlanFeedInput{Ref: files.ref, Spec: files.spec, Resume: []string{head}, Batches: 1})
	jobtest.RequireType(t, err, job.ErrorInvalid)
	require.ErrorContains(t, err, "was no feed")
}

// G1: a leg whose history the server has removed is not an error, which would be repeated for ever; any other answer
// than that is.
func TestSalvageFeed_Gone(t *testing.T) {
	t.Parallel()
	f := setupFeed(t, calls.Lines)
	var answer error
	f.serve(&callstest.Handler{}, Options{Pending: func(context.Context, string, string, int) ([]byte, error) {
		return nil, fmt.Errorf("asking risk/leg-3 what it had not committed: %w", answer)
	}})
	in := wire.SalvageFeedInput{Workflow: "risk/leg-3", Run: "run"}
	answer = serviceerror.NewNotFound("workflow not found")
	result, err := f.acts.SalvageFeed(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, wire.SalvageFeedResult{Gone: true}, result)
	answer = serviceerror.NewUnavailable("later")
	_, err = f.acts.SalvageFeed(t.Context(), in)
	require.ErrorContains(t, err, "later")
}
