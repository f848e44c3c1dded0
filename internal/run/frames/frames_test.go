package frames

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

var someError = &job.Error{Type: "ValueError", Message: "no such <colour> & \"no\" line\nend", Stack: "at 1\nat 2"}

// every is a frame of each type, with all of its fields.
var every = []any{
	&wire.HelloFrame{
		Type: TypeHello, Version: Version, Worker: "box-4711", Slot: 3, Incarnation: 2, MaxRestarts: 10, Seed: -7, Concurrency: 4,
		Limits: wire.FrameLimits{Frame: MaxFrame, Scope: MaxScope, Timers: MaxTimers},
	},
	&wire.AcquiredFrame{Type: TypeAcquired, ID: 3, Error: someError},
	&wire.StoppingFrame{Type: TypeStopping, Reason: "interrupted", Grace: 119.5},
	&wire.ByeFrame{Type: TypeBye},
	&wire.ReadyFrame{Type: TypeReady, Name: "naive Bayes 1.2", Stack: "USR1", Error: someError},
	&wire.ResultsFrame{
		Type: TypeResults, ID: 7, More: true, Error: someError,
		Results: []wire.ResultFrame{{Value: json.RawMessage(`{"a":"<é>"}`)}, {Drop: true}, {Error: someError}, {Value: json.RawMessage("null"), Clean: true}},
	},
	&wire.AcquireFrame{Type: TypeAcquire, ID: 3, Scope: "score.py#41", After: 1.5, Action: ActionReport, Signal: "TERM"},
	&wire.ReleaseFrame{Type: TypeRelease, Scope: "score.py#41"},
	&wire.LogFrame{Type: TypeLog, Level: "warn", Message: "old", Fields: map[string]any{"path": "model.bin", "n": 1.5}},
	&wire.MetricFrame{Type: TypeMetric, Name: "tokens", Kind: "counter", Value: 812.25},
	&wire.RequestStopFrame{Type: TypeRequestStop, Reason: "disk almost full", Error: someError},
	&wire.SlowDownFrame{Type: TypeSlowDown, After: 2.5},
}

func TestEncode_RoundTrip(t *testing.T) {
	t.Parallel()
	for _, frame := range every {
		line, err := Encode(frame)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(line), "\n"))
		require.True(t, strings.HasSuffix(string(line), "\n"))
		require.NotContains(t, string(line), `\u003c`, "nothing is escaped for HTML")
		name, err := Type(line)
		require.NoError(t, err)
		require.Equal(t, reflect.ValueOf(frame).Elem().FieldByName("Type").String(), name)
		got := reflect.New(reflect.TypeOf(frame).Elem()).Interface()
		require.NoError(t, Decode(line, got))
		require.Equal(t, frame, got)
	}
}

func TestResults_Append(t *testing.T) {
	t.Parallel()
	for _, f := range []wire.ResultsFrame{
		{Type: TypeResults},
		{Type: TypeResults, ID: 1, Results: []wire.ResultFrame{{Value: json.RawMessage(`1`)}}},
		{Type: TypeResults, ID: math.MaxInt64, Results: []wire.ResultFrame{{Drop: true}, {Error: someError}, {Value: json.RawMessage(`"é"`)}}, More: true},
		{Type: TypeResults, ID: 2, Results: []wire.ResultFrame{{Error: someError}}, Error: someError},
		*every[5].(*wire.ResultsFrame),
	} {
		line := AppendResults(&f, []byte("x"))
		require.True(t, strings.HasPrefix(string(line), "x{") && strings.HasSuffix(string(line), "}\n"))
		var got wire.ResultsFrame
		require.NoError(t, json.Unmarshal(line[1:], &got))
		require.Equal(t, normal(f), normal(got))
		require.NoError(t, Decode(line[1:], &got))
		require.Equal(t, normal(f), normal(got))
	}
}

// M8: a call has its span, if there is one.
func TestAppendCall(t *testing.T) {
	t.Parallel()
	items := []string{`{"id":1}`, `"é"`, `null`}
	item := func(i int) []byte { return []byte(items[i]) }
	for name, c := range map[string]struct {
		n           int
		single, csv bool
		parent      string
		want        string
	}{
		"three":  {3, false, false, "", `{"type":"call","id":7,"items":[{"id":1},"é",null]}`},
		"one":    {1, false, false, "", `{"type":"call","id":7,"items":[{"id":1}]}`},
		"none":   {0, false, false, "", `{"type":"call","id":7,"items":[]}`},
		"single": {1, true, false, "", `{"type":"call","id":7,"item":{"id":1}}`},
		"of csv": {1, false, true, "", `{"type":"call","id":7,"csv":true,"items":[{"id":1}]}`},
		"traced": {1, true, false, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", `{"type":"call","id":7,"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","item":{"id":1}}`},
	} {
		line := AppendCall([]byte("x"), 7, c.n, item, c.single, c.csv, c.parent)
		require.Equal(t, "x"+c.want+"\n", string(line), name)
		var f wire.CallFrame
		require.NoError(t, Decode(line[1:], &f))
		require.EqualValues(t, 7, f.ID)
		require.Equal(t, c.csv, f.CSV)
		require.Equal(t, c.parent, f.Traceparent)
		if c.single {
			require.Equal(t, items[0], string(f.Item))
			require.Empty(t, f.Items)
			continue
		}
		require.Nil(t, f.Item)
		require.Len(t, f.Items, c.n)
		for i := range f.Items {
			require.Equal(t, items[i], string(f.Items[i]))
		}
	}
}

func TestType(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"type":"call","id":1}`:                          "call",
		`{"type":"request-stop"}`:                         "request-stop",
		` { "type" : "call" } `:                           "call",
		`{"id":1,"type":"bye"}`:                           "bye",
		`{"type":"b\u0079e"}`:                             "bye",
		`{"type":""}`:                                     "",
		`{"type":"a type of a later version, who knows"}`: "a type of a later version, who knows",
	} {
		got, err := Type([]byte(line))
		require.NoError(t, err, line)
		require.Equal(t, want, got, line)
	}
	for _, line := range []string{``, `x`, `1`, `[]`, `"type"`, `{}`, `{"type":null}`, `{"type":1}`, `{"id":1}`, `Loading…`} {
		_, err := Type([]byte(line))
		var broken *BrokenError
		require.ErrorAs(t, err, &broken, line)
		require.Equal(t, line, broken.Text)
		require.Error(t, errors.Unwrap(err))
	}
}

func TestDecode_Broken(t *testing.T) {
	t.Parallel()
	for line, into := range map[string]any{
		`{"type":"results","id":"seven"}`:                         &wire.ResultsFrame{},
		`{"type":"results","id":1.5}`:                             &wire.ResultsFrame{},
		`{"type":"results","results":{}}`:                         &wire.ResultsFrame{},
		`{"type":"results","results":[1]}`:                        &wire.ResultsFrame{},
		`{"type":"results","results":[{"value":}]}`:               &wire.ResultsFrame{},
		`{"type":"results","results":[{"drop":1}]}`:               &wire.ResultsFrame{},
		`{"type":"results","results":[{"error":"no"}]}`:           &wire.ResultsFrame{},
		`{"type":"results","id":1,"results":[]`:                   &wire.ResultsFrame{},
		`{"type":"results","id":1}}`:                              &wire.ResultsFrame{},
		`{"type":"results","more":"yes"}`:                         &wire.ResultsFrame{},
		`{"type":"call","items":[1,]}`:                            &wire.CallFrame{},
		`{"type":"acquire","after":"soon"}`:                       &wire.AcquireFrame{},
		`{"type":"release"`:                                       &wire.ReleaseFrame{},
		`{"type":"log","fields":[]}`:                              &wire.LogFrame{},
		"{\"type\":\"release\",\xff\"" + strings.Repeat("x", 300): &wire.ReleaseFrame{},
	} {
		err := Decode([]byte(line), into)
		var broken *BrokenError
		require.ErrorAs(t, err, &broken, line)
		require.LessOrEqual(t, len(broken.Text), shown+2, "\uFFFD has three bytes")
		require.Equal(t, strings.ToValidUTF8(line[:min(len(line), shown)], "\uFFFD"), broken.Text)
		require.ErrorContains(t, err, "not a frame: ")
	}
}

// A frame that follows another in the same memory has nothing of it.
func TestDecode_Again(t *testing.T) {
	t.Parallel()
	var f wire.ResultsFrame
	for _, line := range []string{
		`{"type":"results","id":1,"results":[{"value":1},{"drop":true},{"error":{"message":"m"}}],"more":true}`,
		`{"type":"results","id":2,"results":[{"error":{"message":"n"}},{"value":2}],"error":{"message":"whole"}}`,
		`{"type":"results","Id":3,"results":[{"drop":true},{}]}`,
		`{"type":"results","id":4,"results":[{},{},{}]}`,
		`{"type":"results"}`,
	} {
		var want wire.ResultsFrame
		require.NoError(t, json.Unmarshal([]byte(line), &want))
		require.NoError(t, Decode([]byte(line), &f))
		require.Equal(t, normal(want), normal(f), line)
	}
	var c wire.CallFrame
	for _, line := range []string{`{"id":1,"items":[1,2]}`, `{"id":2,"item":3}`, `{"ID":3,"items":[4]}`, `{}`} {
		var want wire.CallFrame
		require.NoError(t, json.Unmarshal([]byte(line), &want))
		require.NoError(t, Decode([]byte(line), &c))
		require.Equal(t, normalCall(want), normalCall(c), line)
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for s, want := range map[float64]time.Duration{
		0: 0, 1.5: 1500 * time.Millisecond, -2: -2 * time.Second, 1e300: math.MaxInt64, -1e300: math.MinInt64,
		math.Inf(1): math.MaxInt64, math.Inf(-1): math.MinInt64,
	} {
		require.Equal(t, want, Seconds(s))
	}
}

// normal distinguishes frames that mean different things: no list is like an empty one, and what is only known of a
// value is left out.
func normal(f wire.ResultsFrame) wire.ResultsFrame {
	if len(f.Results) == 0 {
		f.Results = nil
	}
	f.Results = slices.Clone(f.Results)
	for i := range f.Results {
		f.Results[i].Clean = false
	}
	return f
}

func normalCall(f wire.CallFrame) wire.CallFrame {
	if len(f.Items) == 0 {
		f.Items = nil
	}
	return f
}
