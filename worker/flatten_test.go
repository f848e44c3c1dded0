package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// answer gives the JSON that is in an item.
func answer(item string) (json.RawMessage, error) {
	switch item {
	case "drop":
		return nil, Drop
	case "fail":
		return nil, errors.New("told to")
	}
	return json.RawMessage(item), nil
}

func answerEach(_ context.Context, item string) (json.RawMessage, error) { return answer(item) }

func answerBatch(_ context.Context, items []string) ([]json.RawMessage, error) {
	answers, failed := make([]json.RawMessage, len(items)), ItemErrors{}
	for i, item := range items {
		var err error
		if answers[i], err = answer(item); err != nil {
			failed[i] = err
		}
	}
	if len(failed) > 0 {
		return answers, failed
	}
	return answers, nil
}

func nilSlices(_ context.Context, item string) ([]int, error) {
	if item == "nil" {
		return nil, nil
	}
	return []int{len(item)}, nil
}

func init() {
	processHandlers["answer each"] = Each(answerEach)
	processHandlers["answer batch"] = Batch(answerBatch)
	processHandlers["nil slices"] = Each(nilSlices)
}

// randomAnswer returns the text of an item, and the lines that must come of it. It is not ok if it must fail.
func randomAnswer(random *rand.Rand, n int, withOthers bool) (item string, lines []string, ok bool) {
	switch c := random.IntN(20); {
	case c == 0:
		return fmt.Sprintf(`{"not a list":%d}`, n), nil, false
	case c == 1:
		return `"[1]"`, nil, false
	case c == 2 && withOthers:
		return "drop", nil, true
	case c == 3 && withOthers:
		return "fail", nil, false
	}
	values := []string{`{"a":[1,2],"b":{"c":"],["}}`, `"x, y"`, `[]`, `[[1],"z"]`, `null`, `true`, `-12`}
	for range random.IntN(5) {
		lines = append(lines, values[random.IntN(len(values))])
	}
	return " [" + strings.Join(lines, " , ") + "] ", lines, true
}

// TestFlatten_B11_EveryKind: with any kind of handler the output has a line for each element, in the order of the
// items; what is not a list is its item's error, and only that item's.
func TestFlatten_B11_EveryKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		handler func(f *fixture) Handler
		others  bool // it can drop items, and fail them
	}{
		{"each", func(*fixture) Handler { return processHandlers["answer each"] }, true},
		{"batch", func(*fixture) Handler { return processHandlers["answer batch"] }, true},
		{"exec", func(*fixture) Handler { return Exec("cat") }, false},
		{"serve", func(f *fixture) Handler { return f.python(here(f.t, "testdata/lists.py")) }, true},
		{"each in processes", func(f *fixture) Handler { return f.inProcesses("answer each") }, true},
		{"batch in processes", func(f *fixture) Handler { return f.inProcesses("answer batch") }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			random := seeded(t, 11)
			f := setup(t)
			f.flatten, f.batch, f.options.Slots = true, 70, 2
			var items, want []string
			var bad []int64
			for n := range 400 {
				item, lines, ok := randomAnswer(random, n, c.others)
				items, want = append(items, item), append(want, lines...)
				if !ok {
					bad = append(bad, int64(n))
				}
			}
			o := f.run(c.handler(f), "in.txt", lines(items...))
			require.Equal(t, lines(want...), o.output)
			require.Equal(t, bad, o.items())
			require.EqualValues(t, len(want), o.totals.Lines)
			require.EqualValues(t, len(items)-len(bad), o.totals.OK)
			for _, failure := range o.failures {
				if items[failure.Item] != "fail" {
					require.Equal(t, job.KindInvalid, failure.Kind)
					require.Contains(t, failure.Error.Message, "answer with a JSON list")
					require.Equal(t, 1, failure.Attempts)
				}
			}
		})
	}
}

// A slice of Go that is nil is an empty list, wherever the handler runs.
func TestFlatten_NilSlices(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]func(f *fixture) Handler{
		"in the worker": func(*fixture) Handler { return processHandlers["nil slices"] },
		"in processes":  func(f *fixture) Handler { return f.inProcesses("nil slices") },
		"preprocessed": func(*fixture) Handler {
			return Preprocess(func(_ context.Context, s string) (string, error) { return s, nil }, processHandlers["nil slices"])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.flatten = true
			o := f.run(handler(f), "in.txt", lines("nil", "four", "nil"))
			require.Equal(t, "4\n", o.output)
			require.Empty(t, o.failures)
			require.EqualValues(t, 3, o.totals.OK)
			require.Zero(t, o.totals.Dropped)
		})
	}
}
