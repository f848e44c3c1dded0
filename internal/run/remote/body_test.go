package remote

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBody_Values(t *testing.T) {
	t.Parallel()
	const item = `{"s": "a\"b\\\n\u00e9", "n": 1.50, "big": 12345678901234567890, "o": {"x": [1, 2]}, "none": null, "f": "d/e.txt"}`
	for template, want := range map[string]string{
		`{}`:                             `{"s":"a\"b\\\n\u00e9","n":1.50,"big":12345678901234567890,"o":{"x":[1,2]},"none":null,"f":"d/e.txt"}`,
		`{"a": {s}, "b": "{s}"}`:         `{"a": "a\"b\\\n\u00e9", "b": "a\"b\\\n\u00e9"}`,
		`{"a": {"b": {n}}}`:              `{"a": {"b": 1.50}}`,
		`{"a":{o.x.1}}`:                  `{"a":2}`,
		`{"a":"<{o}>"}`:                  `{"a":"<{\"x\":[1,2]}>"}`,
		`{"a":{none},"b":{ }}`:           `{"a":null,"b":{ }}`,
		`[{big},{"n":"{n}"},{#}]`:        `[12345678901234567890,{"n":"1.50"},1]`,
		`{"a": "{{{n}}} \"{n}\" {{}}"}`:  `{"a": "{1.50} \"1.50\" {}"}`,
		`{"{f/.}": {f/.}, "p": "{f//}"}`: `{"e": "e", "p": "d"}`,
		`{
			"x": {n}
		}`: "{\n\t\t\t\"x\": 1.50\n\t\t}",
	} {
		e, err := New(Options{URL: "https://example.com", Body: template})
		require.NoError(t, err, template)
		data := object(item)
		r := e.NewRequest(oneItem(data))
		require.Nil(t, r.Fault(0), template)
		require.Equal(t, want, string(r.body), template)
	}
}

func TestBody_OfText(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"":              `"a \"b\" <c>"`,
		`{"t":{}}`:      `{"t":"a \"b\" <c>"}`,
		`{"t":"-{}-"}`:  `{"t":"-a \"b\" <c>-"}`,
		`{"t":["{1}"]}`: `{"t":["a \"b\" <c>"]}`,
	} {
		e, err := New(Options{URL: "https://example.com", Body: template})
		require.NoError(t, err, template)
		require.Equal(t, want, string(e.NewRequest(oneItem(line(`a "b" <c>`))).body), template)
	}
}

func TestBody_Form(t *testing.T) {
	t.Parallel()
	e, err := New(Options{URL: "https://example.com", Body: "a={a}&b=x", Headers: []string{"content-type: application/x-www-form-urlencoded"}})
	require.NoError(t, err)
	r := e.NewRequest(oneItem(object(`{"a": "1&b=2 +é"}`)))
	require.Equal(t, "a=1%26b%3D2%20%2B%C3%A9&b=x", string(r.body))
	require.Equal(t, "application/x-www-form-urlencoded", r.header.Get("Content-Type"))
}

func TestBody_None(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{"": `"x"`, "put": `"x"`, "PATCH": `"x"`, "GET": "", "DELETE": ""} {
		e, err := New(Options{Method: method, URL: "https://example.com"})
		require.NoError(t, err)
		r := e.NewRequest(oneItem(line("x")))
		require.Equal(t, want, string(r.body), method)
		require.Equal(t, want != "", r.header.Get("Content-Type") != "", method)
	}
}

func TestBody_Refuses(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		`{"a": {n}5}`:       "the body is not JSON",
		`{"a": -{n}}`:       "the body is not JSON",
		`{"a": "{n}}"}`:     "has no { before it",
		`{"a": "{n"}`:       "there is no placeholder",
		`{"a": {n`:          "has no } behind it",
		`{"a": "{x y!}"}`:   "there is no placeholder {x y!}",
		`hello {name}`:      "the body is not JSON",
		"{\"a\": \"\xff\"}": "the body is not UTF-8",
		`{"a": {b}} {c}`:    "the body is not JSON",
	} {
		_, err := New(Options{URL: "https://example.com", Body: template})
		require.ErrorContains(t, err, want, template)
	}
}

func TestBody_ItemsWithoutOne(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"b": 1}`:          `{a}: the item has no field "a"`,
		`{"a": null}`:       "{a}: the value is null",
		"{\"a\": \"\xff\"}": "{a}: the item is not UTF-8",
		`{"a": `:            "{a}: ",
		`"text"`:            "{a}: ",
	} {
		e, err := New(Options{URL: "https://example.com", Body: `{"a": "{a}"}`})
		require.NoError(t, err)
		f := faultOf(t, e, object(data))
		require.Contains(t, f.Message, want, data)
		require.Equal(t, "invalid", f.Kind)
		require.Equal(t, Fail, f.Verdict)
	}
	e, err := New(Options{URL: "https://example.com"})
	require.NoError(t, err)
	require.Contains(t, faultOf(t, e, line("\xff")).Message, "not UTF-8")
}
