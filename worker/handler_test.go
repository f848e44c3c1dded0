package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

type photo struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

type thumb struct {
	Of string `json:"of"`
}

// A tooLargeError is an error with its own type.
type tooLargeError struct{ size int }

func (e *tooLargeError) Error() string { return fmt.Sprintf("%d is too large", e.size) }

// ValueError is one that is not a pointer.
type valueError struct{}

func (valueError) Error() string { return "no value" }

func TestEach_DecodesAndEncodes(t *testing.T) {
	t.Parallel()
	h := Each(func(_ context.Context, p photo) (thumb, error) { return thumb{Of: p.Name}, nil })
	o := setup(t).run(h, "in.jsonl", lines(`{"name":"a","size":1}`, `{"size":2,"name":"<b>&é\u2028"}`, `{}`))
	require.Equal(t, lines(`{"of":"a"}`, `{"of":"<b>&é\u2028"}`, `{"of":""}`), o.output, "nothing is escaped for HTML")
	require.Empty(t, o.failures)
	require.EqualValues(t, 3, o.totals.OK)
}

func TestEach_Forms(t *testing.T) {
	t.Parallel()
	h := Each(func(_ context.Context, v any) (string, error) { return fmt.Sprintf("%T %v", v, v), nil })
	for _, c := range []struct{ file, input, want string }{
		{"in.txt", "a \"line\"\r\n", `"string a \"line\""`},
		{"in.jsonl", "[1]\n", `"[]interface {} [1]"`},
		{"in.jsonl", "null\n", `"<nil> <nil>"`},
		{"in.csv", "a,b\n\"x\ny\",2\n", `"map[string]interface {} map[a:x\ny b:2]"`},
	} {
		require.Equal(t, lines(c.want), setup(t).run(h, c.file, c.input).output, c.input)
	}
}

// TestEach_NullIsAResult (B8).
func TestEach_NullIsAResult(t *testing.T) {
	t.Parallel()
	h := Each(func(_ context.Context, v any) (any, error) { return nil, nil })
	require.Equal(t, lines("null", "null"), setup(t).run(h, "in.txt", "a\nb\n").output)
}

func TestEach_DropLeavesNoLine(t *testing.T) {
	t.Parallel()
	h := Each(func(_ context.Context, s string) (string, error) {
		if s == "b" {
			return s, fmt.Errorf("not this one: %w", Drop)
		}
		return s, nil
	})
	o := setup(t).run(h, "in.txt", "a\nb\nc\n")
	require.Equal(t, lines(`"a"`, `"c"`), o.output)
	require.EqualValues(t, 3, o.totals.OK)
	require.EqualValues(t, 1, o.totals.Dropped)
	require.Zero(t, o.totals.Failed)
}

// TestEach_ErrorsKeepTheirType (B7).
func TestEach_ErrorsKeepTheirType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		err           error
		kind, message string
	}{
		{"pointer", &tooLargeError{7}, "tooLargeError", "7 is too large"},
		{"wrapped", fmt.Errorf("scaling: %w", &tooLargeError{7}), "tooLargeError", "scaling: 7 is too large"},
		{"wrapped twice", fmt.Errorf("a: %w", fmt.Errorf("b: %w", valueError{})), "valueError", "a: b: no value"},
		{"plain", errors.New("no name"), "error", "no name"},
		{"application error", temporal.NewApplicationError("says", "OutOfRange"), "OutOfRange", "says (type: OutOfRange, retryable: true)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := Each(func(context.Context, any) (any, error) { return nil, c.err })
			o := setup(t).run(h, "in.jsonl", "{\"a\": 1}\n")
			require.Empty(t, o.output)
			require.Len(t, o.failures, 1)
			f := o.failures[0]
			require.Equal(t, job.KindError, f.Kind)
			require.Equal(t, c.kind, f.Error.Type)
			require.Equal(t, c.message, f.Error.Message)
			require.JSONEq(t, `{"a":1}`, string(f.Input))
			require.Equal(t, 1, f.Attempts)
		})
	}
}

// TestEach_PanicIsTheItems (K7).
func TestEach_PanicIsTheItems(t *testing.T) {
	t.Parallel()
	h := Each(func(_ context.Context, s string) (string, error) {
		if s == "b" {
			explode()
		}
		return s, nil
	})
	o := setup(t).run(h, "in.txt", "a\nb\nc\n")
	require.Equal(t, lines(`"a"`, `"c"`), o.output)
	require.Equal(t, []int64{1}, o.items())
	f := o.failures[0]
	require.Equal(t, job.KindError, f.Kind)
	require.Equal(t, "panic", f.Error.Type)
	require.Equal(t, "boom", f.Error.Message)
	require.Contains(t, f.Error.Stack, "worker.explode(")
}

func explode() { panic(errors.New("boom")) }

func TestEach_ItemsThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	h := Each(func(_ context.Context, p photo) (string, error) { calls.Add(1); return p.Name, nil })
	f := setup(t)
	f.limits.ItemAttempts = 3
	o := f.run(h, "in.jsonl", lines(`{"name":"a"}`, `{"name":`, `{"name":7}`, `{"name":"b"}`, `"x"`))
	require.Equal(t, lines(`"a"`, `"b"`), o.output)
	require.Equal(t, []int64{1, 2, 4}, o.items())
	require.Equal(t, job.KindInvalid, o.failures[0].Kind)
	require.Equal(t, 1, o.failures[0].Attempts, "no repetition makes JSON of it")
	require.Equal(t, job.KindError, o.failures[1].Kind)
	require.Equal(t, "UnmarshalTypeError", o.failures[1].Error.Type)
	require.Contains(t, o.failures[1].Error.Message, "name")
	require.EqualValues(t, 2, calls.Load())
}

func TestEach_ResultsThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	h := Each(func(_ context.Context, s string) (float64, error) {
		if s == "b" {
			return math.NaN(), nil
		}
		return 1, nil
	})
	o := setup(t).run(h, "in.txt", "a\nb\nc\n")
	require.Equal(t, lines("1", "1"), o.output)
	require.Equal(t, []int64{1}, o.items())
	require.Contains(t, o.failures[0].Error.Message, "NaN")
}

func TestEach_ItemAttempts(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	h := Each(func(_ context.Context, s string) (string, error) {
		if n := calls.Add(1); s == "never" || s == "third" && n%3 != 0 {
			return "", errors.New("not yet")
		}
		return s, nil
	})
	f := setup(t)
	f.limits.ItemAttempts = 3
	o := f.run(h, "in.txt", "third\n")
	require.Equal(t, lines(`"third"`), o.output)
	require.EqualValues(t, 3, calls.Load())
	o = f.run(h, "in.txt", "never\n")
	require.Equal(t, 3, o.failures[0].Attempts)
	require.EqualValues(t, 6, calls.Load())
}

// TestEach_Expires: the handler's context ends with the call's time, and the item with kind expired.
// T17: an item whose time is over is tried as often as a call that fails.
func TestEach_Expires(t *testing.T) {
	t.Parallel()
	h := Each(func(ctx context.Context, s string) (string, error) {
		if s == "b" {
			<-ctx.Done()
			return "", ctx.Err()
		}
		return s, nil
	})
	bubble(t, func(t *testing.T, f *fixture) {
		f.limits.Timeout = 200 * time.Millisecond
		o := f.run(h, "in.txt", "a\nb\nc\n")
		require.Equal(t, lines(`"a"`, `"c"`), o.output)
		require.Equal(t, job.KindExpired, o.failures[0].Kind)
		require.Contains(t, o.failures[0].Error.Message, "200ms")
		require.Equal(t, f.limits.Attempts, o.only(t).Attempts, "as often as one in its own process")
		require.EqualValues(t, f.limits.Attempts, o.totals.Expiries)
	})
}

// TestEach_TheTimeIsTheItems: many items that together take longer than the call's time are fine.
func TestEach_TheTimeIsTheItems(t *testing.T) {
	t.Parallel()
	h := Each(func(ctx context.Context, s string) (string, error) {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(60 * time.Millisecond): // an item's work
			return s, nil
		}
	})
	bubble(t, func(t *testing.T, f *fixture) {
		f.limits.Timeout = 300 * time.Millisecond
		o := f.run(h, "in.txt", strings.Repeat("a\n", 12))
		require.Empty(t, o.failures)
	})
}

func TestBatch_GivesResultsInOrder(t *testing.T) {
	t.Parallel()
	var sizes []int
	h := Batch(func(_ context.Context, ps []photo) ([]thumb, error) {
		sizes = append(sizes, len(ps))
		var out []thumb
		for _, p := range ps {
			out = append(out, thumb{Of: p.Name})
		}
		return out, nil
	})
	f := setup(t)
	f.options.CallItems, f.options.Slots = 10, 1
	var input, want strings.Builder
	for i := range 25 {
		fmt.Fprintf(&input, `{"name":"%d"}`+"\n", i)
		fmt.Fprintf(&want, `{"of":"%d"}`+"\n", i)
	}
	o := f.run(h, "in.jsonl", input.String())
	require.Equal(t, want.String(), o.output)
	require.NotContains(t, sizes, 0)
	require.LessOrEqual(t, slices.Max(sizes), 10)
	f.batch = 25
	sizes = nil
	o = f.run(h, "in.jsonl", input.String())
	require.Equal(t, []int{10, 10, 5}, sizes, "B3")
	require.EqualValues(t, 3, o.totals.Calls)
	require.EqualValues(t, 25, o.totals.CallItems)
	require.EqualValues(t, 5, o.totals.CallMin)
	require.EqualValues(t, 10, o.totals.CallMax)
}

func TestBatch_ItemErrors(t *testing.T) {
	t.Parallel()
	h := Batch(func(_ context.Context, ss []string) ([]string, error) {
		each := ItemErrors{}
		for i, s := range ss {
			switch s {
			case "bad":
				each[i] = &tooLargeError{i}
			case "drop":
				each[i] = Drop
			}
		}
		return ss, fmt.Errorf("some failed: %w", each)
	})
	f := setup(t)
	f.batch = 4
	o := f.run(h, "in.txt", "a\nbad\ndrop\nb\n")
	require.Equal(t, lines(`"a"`, `"b"`), o.output)
	require.Equal(t, []int64{1}, o.items())
	require.Equal(t, "tooLargeError", o.failures[0].Error.Type)
	require.EqualValues(t, 1, o.totals.Dropped)
	require.EqualValues(t, 1, o.totals.Calls, "the call itself was a good one")
}

func TestBatch_ItemAttemptsAreOfTheFailedItemsOnly(t *testing.T) {
	t.Parallel()
	var calls [][]string
	h := Batch(func(_ context.Context, ss []string) ([]string, error) {
		calls = append(calls, slices.Clone(ss))
		each := ItemErrors{}
		for i, s := range ss {
			if s == "never" || s == "second" && len(calls) == 1 {
				each[i] = errors.New("not yet")
			}
		}
		return ss, each
	})
	f := setup(t)
	f.batch, f.limits.ItemAttempts = 3, 3
	o := f.run(h, "in.txt", "a\nsecond\nnever\n")
	require.Equal(t, lines(`"a"`, `"second"`), o.output)
	require.Equal(t, [][]string{{"a", "second", "never"}, {"second", "never"}, {"never"}}, calls)
	require.Equal(t, 3, o.failures[0].Attempts)
}

// TestBatch_FaultsAreNarrowedDown (B6, K8): what fails a call as a whole ends up on the item that
// causes it.
func TestBatch_FaultsAreNarrowedDown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		fault          func(ss []string) ([]string, error)
		kind, of, says string
	}{
		{"an error", func(ss []string) ([]string, error) { return nil, &tooLargeError{1} }, job.KindError, "tooLargeError", "1 is too large"},
		{"a panic", func([]string) ([]string, error) { explode(); return nil, nil }, job.KindError, "panic", "boom"},
		{"a result too few", func(ss []string) ([]string, error) { return ss[1:], nil }, job.KindLength, "Length", "given 1 item and answered with 0 results"},
		{"a result too many", func(ss []string) ([]string, error) { return append(ss, "x"), nil }, job.KindLength, "Length", "given 1 item and answered with 2 results"},
		{"errors without results", func([]string) ([]string, error) { return nil, ItemErrors{0: errors.New("no")} }, job.KindLength, "Length", "given 1 item and answered with 0 results"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			h := Batch(func(_ context.Context, ss []string) ([]string, error) {
				calls++
				if slices.Contains(ss, "bad") {
					return c.fault(ss)
				}
				return ss, nil
			})
			f := setup(t)
			f.batch = 64
			good := strings.Repeat("good\n", 31)
			o := f.run(h, "in.txt", good+"bad\n"+good+"good\n")
			require.Equal(t, strings.Repeat("\"good\"\n", 63), o.output)
			require.Equal(t, []int64{31}, o.items())
			require.Equal(t, c.kind, o.failures[0].Kind)
			require.Equal(t, c.of, o.failures[0].Error.Type)
			require.Contains(t, o.failures[0].Error.Message, c.says)
			if c.of == "panic" {
				require.Contains(t, o.failures[0].Error.Stack, "worker.explode(")
			}
			require.LessOrEqual(t, calls-1, 2*6+3, "extra calls: 2·log2(n) + attempts")
		})
	}
}

func TestBatch_InvalidItemsDoNotReachTheCall(t *testing.T) {
	t.Parallel()
	h := Batch(func(_ context.Context, ns []int) ([]int, error) {
		for i := range ns {
			ns[i] *= 2
		}
		return ns, nil
	})
	f := setup(t)
	f.batch = 5
	o := f.run(h, "in.jsonl", "1\nx\n\"y\"\n2\n3\n")
	require.Equal(t, lines("2", "4", "6"), o.output)
	require.Equal(t, []int64{1, 2}, o.items())
	require.Equal(t, job.KindInvalid, o.failures[0].Kind)
	require.Equal(t, job.KindError, o.failures[1].Kind)
	require.Zero(t, o.totals.Retries)
}

func TestBatch_Expires(t *testing.T) {
	t.Parallel()
	h := Batch(func(ctx context.Context, ss []string) ([]string, error) {
		if slices.Contains(ss, "bad") {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return ss, nil
	})
	f := setup(t)
	f.batch, f.limits.Timeout, f.limits.Attempts = 4, 200*time.Millisecond, 1
	o := f.run(h, "in.txt", "a\nb\nbad\nc\n")
	require.Equal(t, lines(`"a"`, `"b"`, `"c"`), o.output)
	require.Equal(t, job.KindExpired, o.failures[0].Kind)
	require.GreaterOrEqual(t, o.totals.Expiries, int64(3))
}

func TestHandler_ZeroValueIsRefused(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Handler{}.Check(Options{}), "make one with Each, Batch, Exec or Serve")
}
