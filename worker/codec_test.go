package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/stint-run/stint/internal/base/codec"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stretchr/testify/require"
)

// order is a type that the fast codec gets.
type order struct {
	ID    int64            `json:"id"`
	Price float64          `json:"price,omitempty"`
	Tags  []string         `json:"tags"`
	Extra json.RawMessage  `json:"extra,omitempty"`
	Of    map[string]int64 `json:"of,omitempty"`
}

var records = Each(passOrder)

func passOrder(_ context.Context, o order) (order, error) {
	if o.ID == 7 {
		o.Price = math.Inf(1)
	}
	return o, nil
}

// Go handlers come to the same outcomes with either codec, in the worker and in processes of their own.
func TestCodec_SameOutcomes(t *testing.T) {
	t.Parallel()
	const name = "in.jsonl"
	input := lines(
		`{"id":1,"price":1e2,"tags":["<a>","\u00e9\ud83d\ude00\ud800"],"of":{"b":1,"a":2}}`, `{"ID":2,"id":3,"Tags":[]}`,
		`{"id":9223372036854775808}`, `{"id":1.5}`, `{"id":"1"}`, `[]`, `null`, `{"id":1,}`, `{"tags":["a"],"tags":null}`, `{"id":7}`,
		`{"extra": [1, {"a" : 2}] }`, `{"id":1}{}`, `{"of":{"a":1},"of":{"b":2}}`, "{\"tags\":[\"\xff\"]}", `{"unknown":[[{}]]}`,
	)
	run := func(f *fixture, h Handler) outcome {
		f.options.Slots = 1
		return f.run(h, name, input)
	}
	want := run(setup(t), Codec(EncodingJSON, records))
	require.Equal(t, 8, len(want.items()), "%v", want.failures)
	in := func(name string) outcome {
		f := setup(t)
		return run(f, f.inProcesses(name))
	}
	for name, got := range map[string]outcome{
		"fast":                        run(setup(t), records),
		"batch":                       run(setup(t), Batch(passOrders)),
		"batch, encoding/json":        run(setup(t), Codec(EncodingJSON, Batch(passOrders))),
		"preprocessed":                run(setup(t), Preprocess(passOrder, records)),
		"in processes":                in("records"),
		"in processes, encoding/json": in("records-encoding/json"),
	} {
		require.Equal(t, want.output, got.output, name)
		require.Equal(t, want.items(), got.items(), name)
		for i, failure := range want.failures {
			require.Equal(t, failure.Kind, got.failures[i].Kind, name)
			require.Equal(t, failure.Error.Type, got.failures[i].Error.Type, name)
		}
	}
}

func passOrders(ctx context.Context, in []order) ([]order, error) {
	out := make([]order, len(in))
	for i := range in {
		out[i], _ = passOrder(ctx, in[i])
	}
	return out, nil
}

// Codec reaches every Go function of a handler; without it each type has its own codec.
func TestCodec_OfEachFunction(t *testing.T) {
	t.Parallel()
	type plain = order
	fast := codec.ForDecoding(reflect.TypeFor[plain]())
	require.NotEqual(t, codec.Standard, fast)
	codecs := func(h Handler) (in, out codec.Codec, inner calls.Handler) {
		opened, _, err := h.open(dependencies{options: Options{}.withDefaults()})
		require.NoError(t, err)
		switch h := opened.(type) {
		case *each[plain, plain]:
			return h.in.values, h.out, nil
		case *batch[plain, plain]:
			return h.in.values, h.out, nil
		case *preprocessed[plain, plain]:
			return h.in.values, h.out, h.inner
		}
		t.Fatalf("unexpected %T", opened)
		return nil, nil, nil
	}
	for name, h := range map[string]Handler{
		"each": records, "batch": Batch(passOrders), "preprocess": Preprocess(passOrder, records),
	} {
		in, out, _ := codecs(h)
		require.Equal(t, fast, in, name)
		require.Equal(t, fast, out, name)
		in, out, inner := codecs(Codec(EncodingJSON, h))
		require.Equal(t, codec.Standard, in, name)
		require.Equal(t, codec.Standard, out, name)
		if inner != nil {
			require.Equal(t, codec.Standard, inner.(*each[plain, plain]).in.values, name)
		}
	}
	require.NotSame(t, records.identity, Codec(EncodingJSON, records).identity, "it is another handler for ChildMain")
	require.True(t, Codec(EncodingJSON, Handler{}).IsZero())
}

// What encodes itself is encoded as encoding/json does it: compacted, and checked.
func TestEach_ResultsWithMethods(t *testing.T) {
	t.Parallel()
	h := Each(func(_ context.Context, s string) (any, error) { return map[string]any{"v": ownJSON(s)}, nil })
	o := setup(t).run(h, "in.txt", lines(`{ "a" : 1 }`, `fail`, `[1`))
	require.Equal(t, lines(`{"v":{"a":1}}`), o.output)
	require.Equal(t, []int64{1, 2}, o.items())
	require.Contains(t, o.failures[0].Error.Message, "no JSON today")
	for _, failure := range o.failures {
		require.Equal(t, "MarshalerError", failure.Error.Type, fmt.Sprint(failure))
	}
}

type ownJSON string

func (v ownJSON) MarshalJSON() ([]byte, error) {
	if v == "fail" {
		return nil, errors.New("no JSON today")
	}
	return []byte(v), nil
}
