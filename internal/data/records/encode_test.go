package records

import (
	"encoding/csv"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

func TestAppend(t *testing.T) {
	t.Parallel()
	const same = "the same as JSON"
	columns := []string{"a", `b"<`}
	for name, c := range map[string]struct {
		format     wire.Format
		raw        string
		json, line string
	}{
		"jsonl":                  {JSONL, `{"a": "<\u00e9>"}`, `{"a": "<\u00e9>"}`, same},
		"jsonl, white space":     {JSONL, " [1,\t2] \t\r", " [1,\t2]", " [1,\t2] \t\r"},
		"jsonl, scalar":          {JSONL, "null", "null", same},
		"text":                   {Text, "a b\t", `"a b\t"`, "a b\t"},
		"text, carriage returns": {Text, "a\rb\r\r", `"a\rb\r"`, "a\rb\r\r"},
		"text, escapes":          {Text, "\x00\x1f\"\\\b\f<&>\x7f", `"\u0000\u001f\"\\\b\f<&>` + "\x7f\"", "\x00\x1f\"\\\b\f<&>\x7f"},
		"text, separators":       {Text, "\u2027\u2028\u2029\u202a", "\"\u2027\\u2028\\u2029\u202a\"", "\u2027\u2028\u2029\u202a"},
		"text, not ASCII":        {Text, "é\U0001F600", "\"é\U0001F600\"", "é\U0001F600"},
		"text, not UTF-8":        {Text, "a\xe9", "", "a\xe9"},
		"csv":                    {CSV, "1, x ", `{"a":"1","b\"<":" x "}`, same},
		"csv, empty":             {CSV, ",\"\"", `{"a":"","b\"<":""}`, same},
		"csv, quotes":            {CSV, "\"\"\"x\"\"\",\"a,\"\"\r\nb\"", `{"a":"\"x\"","b\"<":"a,\"\r\nb"}`, same},
		"json, one line":         {JSON, `{"a": [1, 2]}`, `{"a": [1, 2]}`, same},
		"json, lines":            {JSON, "{\r\n  \"a<\": [\n 1,\t2 ] }", `{"a<":[1,2]}`, same},
		"csv, only quotes":       {CSV, `"""","""a"`, `{"a":"\"","b\"<":"\"a"}`, same},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := wire.Shape{Format: c.format, Columns: columns}
			it := Item{Raw: []byte(c.raw)}
			if c.line == same {
				c.line = c.json
			}
			if c.json != "" {
				got, err := AppendJSON(&s, []byte("> "), &it)
				require.NoError(t, err)
				require.Equal(t, "> "+c.json, string(got))
			}
			got, err := AppendLine(&s, []byte("> "), &it)
			require.NoError(t, err)
			require.Equal(t, "> "+c.line, string(got))
			require.Equal(t, c.raw, string(it.Raw), "the item is left as it was")
		})
	}
}

func TestAppendErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format wire.Format
		item   Item
		reason string
	}{
		"no item":            {Text, Item{Err: invalid("is too long")}, "is too long"},
		"jsonl":              {JSONL, Item{Raw: []byte(`{"a":tru}`)}, "is not JSON: invalid character '}' in literal true (expecting 'e'), at byte 8"},
		"jsonl, two":         {JSONL, Item{Raw: []byte(`{} {}`)}, "is not JSON: invalid character '{' after top-level value, at byte 3"},
		"jsonl, cut off":     {JSONL, Item{Raw: []byte(`[1`)}, "is not JSON: unexpected end of JSON input, at byte 1"},
		"jsonl, too deep":    {JSONL, Item{Raw: []byte(strings.Repeat("[", 1<<20))}, "exceeded max depth, at byte 10000"},
		"jsonl, not UTF-8":   {JSONL, Item{Raw: []byte("[\"\xff\"]")}, "is not valid UTF-8 at byte 2"},
		"jsonl, a document":  {JSONL, Item{Raw: []byte(" [\r")}, "use --format json"},
		"jsonl, binary":      {JSONL, Item{Raw: []byte("\x00")}, "is not JSON"},
		"csv, one field":     {CSV, Item{Raw: []byte("1")}, "has 1 field, the header has 2"},
		"csv, fewer fields":  {CSV, Item{Raw: nil}, "has 1 field, the header has 2"},
		"csv, more fields":   {CSV, Item{Raw: []byte("1,2,3,")}, "has 4 fields, the header has 2"},
		"csv, stray quote":   {CSV, Item{Raw: []byte(`1,5" disk`)}, "has a quote in field 2, which does not begin with one"},
		"csv, behind quote":  {CSV, Item{Raw: []byte(`"1" ,2`)}, "has text behind the closing quote of field 1"},
		"csv, open quote":    {CSV, Item{Raw: []byte(`1,"2`)}, "has no closing quote in field 2"},
		"csv, quote at last": {CSV, Item{Raw: []byte(`1,"2""`)}, "has no closing quote in field 2"},
		"csv, not UTF-8":     {CSV, Item{Raw: []byte("1,\xe9")}, "is not valid UTF-8 at byte 2"},
		"csv, U+FFFD is not": {CSV, Item{Raw: []byte("\uFFFD\xe2\x80")}, "is not valid UTF-8 at byte 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := wire.Shape{Format: c.format, Columns: []string{"a", "b"}}
			for _, appendTo := range []func([]byte, *Item) ([]byte, error){
				func(dst []byte, it *Item) ([]byte, error) { return AppendJSON(&s, dst, it) },
				func(dst []byte, it *Item) ([]byte, error) { return AppendLine(&s, dst, it) },
			} {
				dst := append(make([]byte, 0, 100), "> "...)
				got, err := appendTo(dst, &c.item)
				var why *InvalidError
				require.ErrorAs(t, err, &why)
				require.Contains(t, why.Reason, c.reason)
				require.Equal(t, "> ", string(got))
			}
		})
	}
}

// TestCSVRandom writes records with encoding/csv and reads them back.
func TestCSVRandom(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	value := func() string {
		pieces := []string{"a", "\"", "\n", ",", "", " ", "é", "\\", "\t", "\"\"", "\n\n", "<"}
		var out strings.Builder
		for range random.IntN(6) {
			out.WriteString(pieces[random.IntN(len(pieces))])
		}
		return out.String()
	}
	for range 1000 {
		s := wire.Shape{Format: CSV, Columns: []string{"a", "b", "c"}}
		var want [][]string
		var text strings.Builder
		w := csv.NewWriter(&text)
		for range random.IntN(20) {
			rec := []string{value(), value(), value()}
			want = append(want, rec)
			require.NoError(t, w.Write(rec))
		}
		w.Flush()
		var got [][]string
		for _, it := range readAll(t, newReader(strings.NewReader(text.String()), s, 16), 3, 1<<20) {
			object, err := AppendJSON(&s, nil, &it)
			require.NoError(t, err)
			got = append(got, valuesOf(t, s, object))
		}
		require.Equal(t, want, got)
	}
}

// TestAppendLineDeep: an item nested millions of times is invalid, not the end of the process.
func TestAppendLineDeep(t *testing.T) {
	t.Parallel()
	shape := wire.Shape{Format: JSONL}
	_, err := AppendLine(&shape, nil, &Item{Raw: []byte(strings.Repeat("[", 8<<20))})
	var invalid *InvalidError
	require.ErrorAs(t, err, &invalid)
}
