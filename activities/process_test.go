package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
)

func TestProcess_WholeBatch(t *testing.T) {
	t.Parallel()
	text := jobtest.Lines(1000)
	f := setup(t, "in.jsonl", text)
	h := &callstest.Handler{Size: calls.CallSize{Items: 64}}
	f.serve(h, Options{})
	f.spec.BatchItems = 1000
	batch := f.plan()[0]
	result := f.process(batch)

	require.Nil(t, result.Rest)
	require.Nil(t, result.FirstError)
	require.Equal(t, batch, result.Entry.Batch)
	require.EqualValues(t, 1000, result.Entry.OK)
	require.Zero(t, result.Entry.Failed)
	require.EqualValues(t, len(text), result.Entry.Bytes)
	require.Equal(t, crc32.Checksum([]byte(text), wire.CRC32C), result.Entry.Sum)
	require.Equal(t, text, f.output(result.Entry))
	require.Len(t, f.keys("run-1/parts/"), 1, "no object for no errors")

	totals := result.Totals
	require.Positive(t, totals.Busy)
	require.Positive(t, totals.CallTimes.Longest())
	totals.Busy, totals.CallTimes = 0, ""
	require.Equal(t, job.Totals{
		OK: 1000, Batches: 1, Calls: 16, CallItems: 1000, CallMin: 1000 % 64, CallMax: 64, InputBytes: int64(len(text)),
	}, totals)
}

// The keys of two executions differ, so that a late one cannot spoil what was accepted.
func TestProcess_EveryExecutionHasItsOwnPart(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	batch := f.plan()[0]
	first, second := f.process(batch), f.process(batch)
	require.NotEqual(t, first.Entry.Part, second.Entry.Part)
	require.Equal(t, f.output(first.Entry), f.output(second.Entry))
}

func TestProcess_EmptyOutput(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	f.serve(&callstest.Handler{Each: func(c *calls.Call, _ calls.Item) { c.Answer.Drop() }}, Options{})
	result := f.process(f.plan()[0])
	require.EqualValues(t, 1, result.Totals.Batches)
	require.Equal(t, result.Totals.OK, result.Totals.Dropped)
	require.Equal(t, result.Entry.Dropped, result.Entry.OK, "dropped ones count as ok (B8)")
	require.Zero(t, result.Entry.Bytes)
	require.Empty(t, f.keys("run-1/parts/"), "an object that would be empty is never made")
}

// What handlers are given, in both forms, of every format.
func TestProcess_Forms(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, content string
		form                calls.Form
		want                []string
	}{
		{"jsonl as values", "in.jsonl", "{\"a\":1}\n [1, 2] \r\n\"x\"\n", calls.JSONValues, []string{`{"a":1}`, "[1, 2]", `"x"`}},
		{"jsonl as lines", "in.jsonl", "{\"a\":1}\n[1, 2]\n", calls.Lines, []string{`{"a":1}`, "[1, 2]"}},
		{"text as values", "in.txt", "one\n\"two\"\t<&>\r\nü\n", calls.JSONValues, []string{`"one"`, `"\"two\"\t<&>"`, `"ü"`}},
		{"text as lines", "in.txt", "one\n\"two\"\t<&>\r\nnot \xff UTF-8\n", calls.Lines, []string{"one", "\"two\"\t<&>\r", "not \xff UTF-8"}},
		{"csv as values", "in.csv", "id,name\n1,ann\n2,\"bob \"\"b\"\"\n<&>\"\n", calls.JSONValues, []string{`{"id":"1","name":"ann"}`, `{"id":"2","name":"bob \"b\"\n<&>"}`}},
		{"csv as lines", "in.csv", "id,name\n1,ann\n", calls.Lines, []string{`{"id":"1","name":"ann"}`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, test.file, test.content)
			var got []string
			f.serve(&callstest.Handler{As: calls.Traits{Form: test.form}, Do: func(c *calls.Call) error {
				for _, item := range c.Items {
					require.EqualValues(t, len(got), item.Ordinal)
					got = append(got, strings.TrimSpace(string(item.Data)))
					if test.form == calls.Lines {
						got[len(got)-1] = string(item.Data)
					}
				}
				return callstest.Echo(c)
			}}, Options{})
			for _, b := range f.plan() {
				result := f.process(b)
				require.Zero(t, result.Entry.Failed)
			}
			require.Equal(t, test.want, got)
		})
	}
}

// Invalid items between valid ones are failed items, and the others are matched by ordinal (B4).
func TestProcess_InvalidItems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, content string
		form                calls.Form
		invalid             map[int64]string // by ordinal: what the record says
		input               map[int64]string // as the record keeps it
	}{
		{
			"jsonl as lines", "in.jsonl", "1\nno json\n3\n{\"a\":\n\xff\n6\n", calls.Lines,
			map[int64]string{1: "not JSON", 3: "not JSON", 4: "UTF-8"},
			map[int64]string{1: `"no json"`, 3: `"{\"a\":"`, 4: `{"base64":"/w=="}`},
		},
		{
			"jsonl as values, not UTF-8", "in.jsonl", "1\n\"\xff\"\n3\n", calls.JSONValues,
			map[int64]string{1: "UTF-8"}, map[int64]string{1: `{"base64":"Iv8i"}`},
		},
		{
			"text as values", "in.txt", "one\n\xfe\nthree\n", calls.JSONValues,
			map[int64]string{1: "UTF-8"}, map[int64]string{1: `{"base64":"/g=="}`},
		},
		{
			"csv", "in.csv", "a,b\n1,2\n3\n4,5,6\n7,\"8\n9,10\n", calls.Lines,
			map[int64]string{1: "has 1 field,", 2: "has 3 fields,", 3: "not closed"},
			map[int64]string{1: `"3"`, 2: `"4,5,6"`, 3: `"7,\"8"`},
		},
		{
			"all", "in.jsonl", "a\nb\nc\n", calls.Lines,
			map[int64]string{0: "not JSON", 1: "not JSON", 2: "not JSON"},
			map[int64]string{0: `"a"`, 1: `"b"`, 2: `"c"`},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, test.file, test.content)
			h := &callstest.Handler{As: calls.Traits{Form: test.form}}
			f.serve(h, Options{})
			f.spec.BatchItems = 1000
			batch := f.plan()[0]
			result := f.process(batch)
			require.Nil(t, result.Rest)
			require.EqualValues(t, len(test.invalid), result.Entry.Failed)
			require.EqualValues(t, batch.Count-int64(len(test.invalid)), result.Entry.OK)
			require.Equal(t, result.Entry.Batch, batch)

			failures := f.failures(result.Entry)
			require.Len(t, failures, len(test.invalid))
			content := f.read(test.file)
			for i, line := range failures {
				failure := line.Failure
				require.Contains(t, failure.Error.Message, test.invalid[failure.Item])
				require.Equal(t, job.KindInvalid, failure.Kind)
				require.Equal(t, 1, failure.Attempts)
				require.Equal(t, f.spec.Files.Input[0], failure.Source)
				require.JSONEq(t, test.input[failure.Item], string(failure.Input))
				if i > 0 {
					require.Greater(t, failure.Item, failures[i-1].Failure.Item)
				}
				var input string
				if json.Unmarshal(failure.Input, &input) == nil {
					require.Truef(t, strings.HasPrefix(content[failure.Offset:], input), "%q lies at its offset", input)
				}
			}
			require.Equal(t, failures[0].Failure.Item, result.FirstError.Item)
			if len(test.invalid) == int(batch.Count) {
				require.Zero(t, h.Calls(), "nothing is left to call the handler with")
				require.Zero(t, result.Totals.Calls)
			}
		})
	}
}

// Failed ordinals keep their insertion offset: put there, a result would be at its place.
func TestProcess_InsertionOffsets(t *testing.T) {
	t.Parallel()
	for round := range jobtest.Rounds(15) {
		random := jobtest.Seeded(t, 500+round)
		n := 1 + random.IntN(200)
		invalid, failed, dropped := map[int]bool{}, map[int]bool{}, map[int]bool{}
		var text strings.Builder
		for i := range n {
			switch random.IntN(6) {
			case 0:
				invalid[i] = true
				fmt.Fprintf(&text, "invalid %d\n", i)
				continue
			case 1:
				failed[i] = true
			case 2:
				dropped[i] = true
			}
			fmt.Fprintf(&text, "%d\n", i)
		}
		f := setup(t, "in.jsonl", text.String())
		f.spec.BatchItems = int64(n)
		f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}, Size: calls.CallSize{Items: 1 + random.IntN(20)}, Each: func(c *calls.Call, item calls.Item) {
			i := int(item.Ordinal)
			switch {
			case failed[i]:
				c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Message: "failed"}}, 3)
			case dropped[i]:
				c.Answer.Drop()
			default:
				c.Answer.Line([]byte(strings.Repeat("r", i%7) + fmt.Sprint(i)))
			}
		}}, Options{})
		result := f.process(f.plan()[0])
		require.EqualValues(t, len(invalid)+len(failed), result.Entry.Failed)
		require.EqualValues(t, len(dropped), result.Entry.Dropped)
		require.EqualValues(t, n, result.Entry.OK+result.Entry.Failed)

		var want strings.Builder
		at := map[int64]int64{}
		for i := range n {
			switch {
			case invalid[i], failed[i]:
				at[int64(i)] = int64(want.Len())
			case !dropped[i]:
				fmt.Fprintf(&want, "%s%d\n", strings.Repeat("r", i%7), i)
			}
		}
		require.Equal(t, want.String(), f.output(result.Entry))
		for _, line := range f.failures(result.Entry) {
			require.Equal(t, at[line.Failure.Item], line.At, "item %d", line.Failure.Item)
			delete(at, line.Failure.Item)
		}
		require.Empty(t, at)
	}
}

func TestProcess_TooLongItem(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	f := setup(t, "in.txt", "short\n"+long+"\nshort, too\n")
	f.spec.MaxItem, f.spec.BatchItems = 1000, 10
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	batch := f.plan()[0]
	result := f.process(batch)
	require.Equal(t, batch, result.Entry.Batch)
	require.Equal(t, "short\nshort, too\n", f.output(result.Entry))
	failures := f.failures(result.Entry)
	require.Len(t, failures, 1)
	failure := failures[0].Failure
	require.EqualValues(t, 1, failure.Item)
	require.Equal(t, job.KindInvalid, failure.Kind)
	require.Contains(t, failure.Error.Message, "over the limit of 1000 bytes")
	require.Equal(t, "null", string(failure.Input), "it is not kept")
	require.EqualValues(t, len("short\n"), failure.Offset)
	require.EqualValues(t, len("short\n"), failures[0].At)
}

// One message travels through history, and must be short there; the record keeps it whole.
func TestProcess_FirstErrorIsShort(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(3))
	f.spec.BatchItems = 3
	message := strings.Repeat("m", 10_000)
	f.serve(&callstest.Handler{Each: func(c *calls.Call, item calls.Item) {
		if item.Ordinal == 0 {
			c.Answer.Line(item.Data)
			return
		}
		c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Type: "T", Message: message, Stack: message}}, 1)
	}}, Options{})
	result := f.process(f.plan()[0])
	require.EqualValues(t, 1, result.FirstError.Item)
	require.Empty(t, result.FirstError.Error.Stack)
	require.LessOrEqual(t, len(result.FirstError.Error.Message), ledger.MaxFirstError+len("…"))
	require.Equal(t, message, f.failures(result.Entry)[0].Failure.Error.Message)
}

// G3, G8: neither an item nor a result is in what travels through history.
func TestProcess_NoItemDataInItsAnswer(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", strings.Repeat("MARKER\n", 10))
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}, Each: func(c *calls.Call, item calls.Item) {
		if item.Ordinal%2 == 0 {
			c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Message: "no"}}, 1)
			return
		}
		c.Answer.Line(item.Data)
	}}, Options{})
	batches := f.plan()
	for _, b := range batches {
		data, err := json.Marshal(f.process(b))
		require.NoError(t, err)
		require.NotContains(t, string(data), "MARKER")
	}
}

// T17: a call that takes too long is a failed item of kind expired; those after it are unharmed.
func TestProcess_CallTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "in.jsonl", jobtest.Lines(20))
		f.spec.BatchItems = 20
		f.serve(&callstest.Handler{Do: func(c *calls.Call) error {
			defer c.End()
			for _, item := range c.Items {
				ctx := c.Begin()
				took := 900 * time.Millisecond
				if item.Ordinal%5 == 2 {
					took = time.Hour // hangs
				}
				select {
				case <-ctx.Done():
					c.Answer.Fail(calls.FaultOf(calls.CauseOf(ctx, ctx.Err())), 1)
				case <-time.After(took):
					c.Answer.Line(item.Data)
				}
			}
			return nil
		}}, Options{})
		in := f.input(f.plan()[0])
		in.Calls.Timeout = time.Second
		result, err := f.acts.Process(t.Context(), in)
		require.NoError(t, err)
		require.Nil(t, result.Rest)
		require.EqualValues(t, 4, result.Entry.Failed)
		require.EqualValues(t, 16, result.Entry.OK)
		require.EqualValues(t, 4, result.Totals.Expiries)
		for i, line := range f.failures(result.Entry) {
			require.EqualValues(t, 5*i+2, line.Failure.Item)
			require.Equal(t, job.KindExpired, line.Failure.Kind)
			require.Equal(t, "the call took longer than 1s", line.Failure.Error.Message)
		}
	})
}

// A whole call that expires is retried and halved until the hanging item is alone.
func TestProcess_CallTimeoutOfAWholeCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, "in.jsonl", jobtest.Lines(16))
		f.spec.BatchItems = 16
		f.serve(&callstest.Handler{Do: func(c *calls.Call) error {
			ctx := c.Begin()
			for _, item := range c.Items {
				if item.Ordinal == 5 {
					<-ctx.Done()
					return calls.CauseOf(ctx, ctx.Err())
				}
			}
			return callstest.Echo(c)
		}}, Options{})
		in := f.input(f.plan()[0])
		in.Calls.Timeout = time.Second
		result, err := f.acts.Process(t.Context(), in)
		require.NoError(t, err)
		require.EqualValues(t, 15, result.Entry.OK)
		failures := f.failures(result.Entry)
		require.Len(t, failures, 1)
		require.EqualValues(t, 5, failures[0].Failure.Item)
		require.Equal(t, job.KindExpired, failures[0].Failure.Kind)
		require.EqualValues(t, result.Totals.Expiries, 3+4+1, "the whole three times, a half at each level, the item once more")
	})
}

// G2: an input that is not what it was when it was planned fails the batch, whenever that shows.
func TestProcess_InputChanged(t *testing.T) {
	t.Parallel()
	text := jobtest.Lines(100)
	tests := []struct {
		name   string
		before func(f *fixture) // before the batch
		during func(f *fixture) // while it runs
		kind   string
	}{
		{"touched before", func(f *fixture) { f.change("in.jsonl") }, nil, job.ErrorChanged},
		{"touched while", nil, func(f *fixture) { f.change("in.jsonl") }, job.ErrorChanged},
		{"shrunk before", func(f *fixture) { f.write("in.jsonl", text[:len(text)/2]) }, nil, job.ErrorChanged},
		{"shrunk while", nil, func(f *fixture) { require.NoError(f.t, os.Truncate(f.path("in.jsonl"), 10)) }, job.ErrorChanged},
		{"grown while", nil, func(f *fixture) { f.write("in.jsonl", text+"1\n") }, job.ErrorChanged},
		{"gone before", func(f *fixture) { require.NoError(f.t, os.Remove(f.path("in.jsonl"))) }, nil, job.ErrorInput},
		{"gone while", nil, func(f *fixture) { require.NoError(f.t, os.Remove(f.path("in.jsonl"))) }, job.ErrorInput},
		{"other items, same size and time", func(f *fixture) {
			info, err := os.Stat(f.path("in.jsonl"))
			require.NoError(f.t, err)
			f.write("in.jsonl", strings.Replace(text, "\n", " ", 1))
			require.NoError(f.t, os.Chtimes(f.path("in.jsonl"), info.ModTime(), info.ModTime()))
		}, nil, job.ErrorChanged},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", text)
			f.spec.BatchItems = 100
			batch := f.plan()[0]
			f.serve(&callstest.Handler{Size: calls.CallSize{Items: 10}, Do: func(c *calls.Call) error {
				if test.during != nil && c.Items[0].Ordinal == 0 {
					test.during(f)
				}
				return callstest.Echo(c)
			}}, Options{})
			if test.before != nil {
				test.before(f)
			}
			_, err := f.acts.Process(t.Context(), f.input(batch))
			jobtest.RequireType(t, err, test.kind)
			require.ErrorContains(t, err, "in.jsonl")
			require.Empty(t, f.keys("run-1/parts/"), "no part of it is left")
		})
	}
}

func TestProcess_StoreGone(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	batch := f.plan()[0]
	require.NoError(t, os.RemoveAll(f.spec.Store))
	f.serve(&callstest.Handler{}, Options{})
	_, err := f.acts.Process(t.Context(), f.input(batch))
	jobtest.RequireType(t, err, job.ErrorInput)
	require.ErrorContains(t, err, "source table")
}

// Parts that cannot be written fail the batch for good where a person has to act.
func TestProcess_OutputUnwritable(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(10))
	batch := f.plan()[0]
	f.write("out.jsonl.stint/run-1/parts", "a file in the place of a directory")
	_, err := f.acts.Process(t.Context(), f.input(batch))
	jobtest.RequireType(t, err, job.ErrorOutput)
}

func TestProcess_AsActivity(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(100))
	f.spec.BatchItems = 100
	env := activityEnv(t)
	env.RegisterActivity(f.acts.Process)
	value, err := env.ExecuteActivity(f.acts.Process, f.input(f.plan()[0]))
	require.NoError(t, err)
	var result wire.ProcessResult
	require.NoError(t, value.Get(&result))
	require.Equal(t, jobtest.Lines(100), f.output(result.Entry))
}

// G8: results travel through the workflow's history.
func TestProcess_SmallAnswer(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(1000))
	f.spec.BatchItems = 1000
	payload, err := converter.GetDefaultDataConverter().ToPayload(f.process(f.plan()[0]))
	require.NoError(t, err)
	require.Less(t, len(payload.GetData()), 500, "%s", payload.GetData())
}

// A CSV item that ends in "\r\n" is kept, although its bytes are fewer than it takes.
func TestProcess_FailureKeepsCSVItemWithCarriageReturn(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.csv", "a,b\r\n1,2\r\n3,4\r\n")
	f.spec.BatchItems = 10
	f.serve(&callstest.Handler{Each: func(c *calls.Call, _ calls.Item) { c.Answer.Fail(&calls.Fault{Kind: job.KindError}, 1) }}, Options{})
	failures := f.failures(f.process(f.plan()[0]).Entry)
	require.Len(t, failures, 2)
	require.JSONEq(t, `{"a":"1","b":"2"}`, string(failures[0].Failure.Input))
}

// seat is a slot that counts.
type seat struct {
	calls.Slot
	left    int
	onLeave func()
}

func (s *seat) Take(ctx context.Context, o calls.Occupant) (_ calls.Slot, err error) {
	s.left = 0
	s.Slot, err = calls.AnySlot{}.Take(ctx, o)
	return s, err
}

func (s *seat) Leave() {
	if s.left++; s.left == 1 {
		s.onLeave()
	}
}

// A batch leaves its slot when its calls are done and before its part is durable; one that fails
// leaves it too.
func TestProcess_LeavesItsSlot(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(100))
	f.spec.BatchItems = 100
	handler := &callstest.Handler{Size: calls.CallSize{Items: 10}}
	slot := &seat{onLeave: func() {
		require.Equal(t, 10, handler.Calls(), "its calls are done")
		require.Empty(t, f.keys(f.ref.Run+"/parts/"), "its part is not there yet")
	}}
	f.serve(handler, Options{Slots: slot})
	batch := f.plan()[0]
	entry := f.process(batch).Entry
	require.EqualValues(t, 100, entry.OK)
	require.Positive(t, slot.left)

	slot.onLeave = func() {}
	f.write("in.jsonl", jobtest.Lines(50))
	_, err := f.acts.Process(t.Context(), f.input(batch))
	require.Error(t, err)
	require.Positive(t, slot.left)
}

// A leg that looks for the item which kills workers has the first items of a batch done, and the rest
// given back; wherever it is cut, the pieces are the whole.
func TestProcess_Take(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(100))
	f.spec.BatchItems = 100
	f.serve(&callstest.Handler{Size: calls.CallSize{Items: 7}}, Options{})
	batch := f.plan()[0]
	random := jobtest.Seeded(t, 31)
	total := job.Totals{}
	for next := &batch; next != nil; {
		in := f.input(*next)
		in.Take = 1 + random.Int64N(20)
		result, err := f.acts.Process(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, min(in.Take, next.Count), result.Entry.Count)
		require.Equal(t, next.First, result.Entry.First)
		require.Equal(t, next.Offset, result.Entry.Offset)
		total.Add(result.Totals)
		next = result.Rest
	}
	require.EqualValues(t, 100, total.OK)
	require.Equal(t, batch.Length, total.InputBytes)
}

// K9: items that every worker has died of are recorded without being retried; what is not an item
// at all keeps its own error.
func TestProcess_Verdict(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", "1\n2\n{bad\n4\n")
	f.spec.BatchItems = 100
	h := &callstest.Handler{As: calls.Traits{Form: calls.CheckedJSON}}
	f.serve(h, Options{})
	in := f.input(f.plan()[0])
	in.Take = 3
	in.Verdict = &wire.Verdict{Kind: job.KindCrash, Error: job.Error{Type: "WorkerDied", Message: "its workers died"}, Attempts: 9}
	result, err := f.acts.Process(t.Context(), in)
	require.NoError(t, err)
	require.Zero(t, h.Calls())
	require.EqualValues(t, 3, result.Entry.Failed)
	require.EqualValues(t, 1, result.Rest.Count)
	require.Equal(t, job.KindCrash, result.FirstError.Kind)
}
