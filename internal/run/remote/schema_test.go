package remote

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const labelSchema = `{
	"type": "object",
	"properties": {"label": {"enum": ["good", "bad"]}, "score": {"type": "number", "maximum": 1}},
	"required": ["label", "score"],
	"additionalProperties": false
}`

func parseSchema(t *testing.T, content string) *Schema {
	t.Helper()
	s, err := ParseSchema([]byte(content))
	require.NoError(t, err)
	return s
}

func TestSchema_Check(t *testing.T) {
	t.Parallel()
	s := parseSchema(t, labelSchema)
	for value, want := range map[string]string{
		`{"label": "good", "score": 0.5}`:    "",
		`{"label": "so", "score": 0.5}`:      "/label: value must be one of 'good', 'bad'",
		`{"label": "good", "score": 2}`:      "/score: maximum: got 2, want 1",
		`{"score": 1}`:                       "the result: missing property 'label'",
		`{"label":"good","score":1,"x":1}`:   "the result: additional properties 'x' not allowed",
		`[]`:                                 "the result: got array, want object",
		`{"label": "good", "score": 1} more`: "the result is not JSON: ",
		`nonsense`:                           "the result is not JSON: ",
	} {
		err := s.Check([]byte(value))
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want, value)
		require.NotContains(t, err.Error(), "\n")
	}
	many := parseSchema(t, `{"items": {"type": "string"}}`)
	require.EqualError(t, many.Check([]byte(`[1, 2, "a", 3, 4, 5]`)),
		"/0: got number, want string; /1: got number, want string; /3: got number, want string; and 2 more")
	require.Less(t, len(many.Check([]byte("["+strings.Repeat("[", 900)+strings.Repeat("]", 900)+"]")).Error()), 1000)
	refers := parseSchema(t, `{"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "definitions": {"a": {"type": "integer"}}}`)
	require.NoError(t, refers.Check([]byte("12345678901234567890")))
	require.EqualError(t, refers.Check([]byte(`1.5`)), "the result: got number, want integer")
}

func TestSchema_Refuses(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`{`:                               "the schema is not JSON",
		`{"type": "objekt"}`:              "invalid schema: /type: ",
		`{"$ref": "file:///etc/passwd"}`:  "a schema cannot refer to other files",
		`{"$ref": "other.json"}`:          "a schema cannot refer to other files",
		`{"$ref": "https://example.com"}`: "a schema cannot refer to other files",
		`{"pattern": "("}`:                "invalid schema: ",
	} {
		_, err := ParseSchema([]byte(content))
		require.ErrorContains(t, err, want, content)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestSchema_Strict(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]bool{
		labelSchema:          true,
		`{"type": "string"}`: false,
		`{"type": "object"}`: false,
		`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`:                                                                           false,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{}}}}},"required":["a"],"additionalProperties":false}`:           false,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"],"additionalProperties":false}`:                              true,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"required":["a"],"additionalProperties":false,"$defs":{"x":{"type":"object","properties":{"y":{}}}}}`: false,
	} {
		require.Equal(t, want, parseSchema(t, content).strict(), content)
	}
}

func TestSchema_OfAnyEndpoint(t *testing.T) {
	t.Parallel()
	e := open(t, Options{Schema: parseSchema(t, `{"type": "integer"}`), ResultPath: ".n", URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})})
	require.Equal(t, "5", result(t, e, object(`{"n": 5}`)))
	f := faultOf(t, e, object(`{"n": "five"}`))
	require.Equal(t, []any{Again, "invalid", TypeSchema}, []any{f.Verdict, f.Kind, f.Type})
	require.Equal(t, "the result does not fit the schema: the result: got string, want integer", f.Message)
}

func TestPath_Refuses(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		".a[":    "result path \".a[\": unexpected EOF. Use a path such as .data.label",
		"input":  "result path \"input\"",
		"$x":     "variable not defined: $x",
		"nofunc": "function not defined: nofunc",
	} {
		_, err := parsePath(path)
		require.ErrorContains(t, err, want, path)
	}
}
