package frames

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/jsonscan"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// usual are frames that need no encoding/json, for their speed.
var usual = []string{
	`{"type":"results","id":7,"results":[]}`,
	`{"type":"results","id":7,"results":[{"value":1}]}`,
	`{"type":"results","id":7,"results":[{"value":{"a":[1,2,{"b":null}]}},{"value":"\u00e9 \" é"},{"drop":true}],"more":true}`,
	`{"type": "results", "id": 7, "results": [{"value": {"a": 1}}, {"drop": false, "value": 2}], "more": false}`,
	` { "results" : [ { "value" : null } ] , "id" : -1 , "type" : "results" } `,
	`{"type":"results","id":7,"results":[{"error":{"type":"E","message":"m"}},{"error":null,"value":1},{}],"error":null}`,
	`{"type":"results","id":7,"error":{"message":"é \u00e9"},"later":{"x":[1]},"results":[{"later":1,"value":2}]}`,
}

// unusual are those that encoding/json decides, most of which it takes.
var unusual = []string{
	``, ` `, `null`, `1`, `[]`, `{}x`, `{"id":1}}`, `{"id":1,}`, `{,}`, `{"id" 1}`, `{"id":1 "type":"results"}`,
	`{"ID":7,"Results":[{"VALUE":1,"DROP":true}]}`, `{"id":1,"id":2}`, `{"results":[{"value":1}],"results":[{"drop":true}]}`,
	`{"results":[{"value":1,"value":2}]}`, `{"\u0069d":7}`, `{"id":null}`, `{"id":1.0}`, `{"id":1e2}`, `{"id":9223372036854775808}`,
	`{"results":null}`, `{"results":[null]}`, `{"results":[[]]}`, `{"results":[{"drop":null}]}`, `{"more":null}`, `{"more":1}`, `{"type":1}`,
	`{"type":"\u0072esults"}`, "{\"type\":\"\xff\"}", "{\"results\":[{\"value\":\"\xff\"}]}", "{\"\xff\":1}", `{"reſults":[]}`,
	`{"results":[{"value":01}]}`, `{"results":[{"value":1},]}`, `{"results":[,]}`, `{"results":[{"value":1}`, `{"results":[{"error":1}]}`,
	`{"results":[{"error":{"Message":"m","message":"n"}}]}`, `{"results":[{"value":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}]}`,
	`{"error":{}}`, `{"":1}`, `{"results":[{"":1}]}`,
}

func TestParse_Usual(t *testing.T) {
	t.Parallel()
	for _, line := range usual {
		var f wire.ResultsFrame
		require.True(t, parseResults(&f, []byte(line), false), line)
	}
	for _, line := range []string{
		`{"type":"call","id":7,"items":[{"id":1},"é \u00e9",null]}`, `{"type":"call","id":7,"item":{"id":1}}`, ` { "items" : [ ] , "type" : 1 } `,
	} {
		var f wire.CallFrame
		require.True(t, parseCall(&f, []byte(line)), line)
	}
}

func FuzzResults(f *testing.F) {
	for _, line := range append(usual, unusual...) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var want wire.ResultsFrame
		wanted := json.Unmarshal(line, &want)
		got := wire.ResultsFrame{ID: 9, More: true, Error: someError, Results: []wire.ResultFrame{{Drop: true, Error: someError}, {Value: json.RawMessage("9")}}[:1]}
		parsed := got
		if parseResults(&parsed, line, false) {
			require.NoError(t, wanted, "%q", line)
			require.Equal(t, normal(want), normal(parsed), "%q", line)
			for _, r := range parsed.Results {
				require.False(t, r.Clean && (bytes.ContainsFunc(r.Value, func(c rune) bool { return c >= utf8.RuneSelf }) || jsonscan.TooDeep(r.Value)), "%q", line)
			}
		}
		err := Decode(line, &got)
		if wanted != nil && err == nil { // only results are to blame
			require.True(t, slices.ContainsFunc(got.Results, func(r wire.ResultFrame) bool { return r.NotJSON && !json.Valid(r.Value) }), "%q", line)
			return
		}
		if wanted != nil {
			require.ErrorContains(t, err, wanted.Error())
			return
		}
		require.NoError(t, err)
		require.Equal(t, normal(want), normal(got), "%q", line)
	})
}

func FuzzCall(f *testing.F) {
	for _, line := range append(usual, unusual...) {
		f.Add([]byte(line))
		f.Add([]byte(strings.ReplaceAll(strings.ReplaceAll(line, "results", "items"), "value", "item")))
	}
	f.Add([]byte(`{"type":"call","id":7,"items":[{"id":1},"é",null],"item":2}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var want wire.CallFrame
		wanted := json.Unmarshal(line, &want)
		got := wire.CallFrame{ID: 9, Item: json.RawMessage("9"), Items: []json.RawMessage{json.RawMessage("9")}}
		parsed := got
		if parseCall(&parsed, line) {
			require.NoError(t, wanted, "%q", line)
			require.Equal(t, normalCall(want), normalCall(parsed), "%q", line)
		}
		err := Decode(line, &got)
		if wanted != nil {
			require.ErrorContains(t, err, wanted.Error())
			return
		}
		require.NoError(t, err)
		require.Equal(t, normalCall(want), normalCall(got), "%q", line)
	})
}
