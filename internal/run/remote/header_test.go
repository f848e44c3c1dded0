package remote

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHeader_Values(t *testing.T) {
	t.Parallel()
	item := object(`{"id": "a b", "n": 5}`)
	vars := env("KEY", "s3cr{et}$X\n", "USER", "ann")
	for given, want := range map[string][2]string{
		"Authorization: Bearer $KEY":       {"Authorization", "Bearer s3cr{et}$X"},
		"x-who:${USER}-{n}":                {"X-Who", "ann-5"},
		"X-Id:  {id} ":                     {"X-Id", "a b"},
		"X-Cost: $$5 and $5, {{x}} $KEY$$": {"X-Cost", "$5 and $5, {x} s3cr{et}$X$"},
	} {
		h, err := parseHeader(given, vars, &redactor{})
		require.NoError(t, err, given)
		got, err := h.of(&item)
		require.NoError(t, err, given)
		require.Equal(t, want, [2]string{h.name, got}, given)
	}
}

func TestHeader_Refuses(t *testing.T) {
	t.Parallel()
	vars := env("EMPTY", " ", "LINES", "a\r\nX-Evil: 1")
	for given, want := range map[string]string{
		"Authorization Bearer x":  `invalid header: use "Name: value"`,
		"X Y: z":                  `invalid header: use "Name: value"`,
		"Host: {x}":               "header Host cannot be set",
		"content-length: 5":       "header Content-Length cannot be set",
		"X: $MISSING":             "header X: the worker's environment has no MISSING",
		"X: ${EMPTY}":             "EMPTY is empty",
		"X: $LINES":               "variable LINES: a header cannot have the end of a line",
		"X: a\nY: b":              "a header cannot have the end of a line",
		"Authorization: sec{ret":  "header Authorization has a brace that is no placeholder's",
		"Content-Type: {x}":       "items do not choose it",
		"Content-Type: text/html": "bodies are JSON",
	} {
		_, err := New(Options{URL: "https://example.com", Headers: []string{given}, Env: vars})
		require.ErrorContains(t, err, want, given)
		require.NotContains(t, err.Error(), "sec{ret")
	}
	_, err := New(Options{URL: "https://example.com", Headers: []string{"X-A: 1", "x-a: 2"}})
	require.ErrorContains(t, err, "header X-A is given twice")
}

// A value does not end its header.
func TestHeader_Injection(t *testing.T) {
	t.Parallel()
	e, err := New(Options{URL: "https://example.com", Headers: []string{"X-Id: {id}"}})
	require.NoError(t, err)
	for _, id := range []string{`a\r\nX-Evil: 1`, `a\nb`, `\r`, `a\u0000b`, `\u007f`} {
		f := faultOf(t, e, object(`{"id": "`+id+`"}`))
		require.Equal(t, TypeTemplate, f.Type)
		require.Contains(t, f.Message, "{id}: a header cannot have")
	}
}
