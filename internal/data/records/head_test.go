package records

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// readHead is Look without hints.
func readHead(r io.Reader, shape wire.Shape) (wire.Shape, int64, error) {
	head, err := Look(r, shape)
	return head.Shape, head.Start, err
}

func TestReadHead(t *testing.T) {
	t.Parallel()
	const bom = "\uFEFF"
	for name, c := range map[string]struct {
		input   string
		format  wire.Format
		columns []string
		rest    string // what is left for items
	}{
		"jsonl":                 {"{}\n", JSONL, nil, "{}\n"},
		"jsonl, mark":           {bom + "{}\n", JSONL, nil, "{}\n"},
		"jsonl, two marks":      {bom + bom + "1", JSONL, nil, bom + "1"},
		"text, shorter":         {"a", Text, nil, "a"},
		"text, mark only":       {bom, Text, nil, ""},
		"text, half a mark":     {bom[:2], Text, nil, bom[:2]},
		"empty":                 {"", CSV, nil, ""},
		"blank":                 {" \n\r\n", CSV, nil, " \n\r\n"},
		"mark only":             {bom, CSV, nil, ""},
		"header only":           {"a", CSV, []string{"a"}, ""},
		"header line only":      {"a,b\r\n", CSV, []string{"a", "b"}, ""},
		"header and record":     {"a,b\n1,2\n", CSV, []string{"a", "b"}, "1,2\n"},
		"mark, quotes":          {bom + "\"a,\"\"\nx\",b\r\n1,2", CSV, []string{"a,\"\nx", "b"}, "1,2"},
		"blank lines before":    {"\n \r\na,b\n\n1,2\n", CSV, []string{"a", "b"}, "\n1,2\n"},
		"names kept as written": {" a ,A,a\n", CSV, []string{" a ", "A", "a"}, ""},
		"not ASCII":             {"größe,数\n", CSV, []string{"größe", "数"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(c.input), iotest.OneByteReader(strings.NewReader(c.input))} {
				s, offset, err := readHead(r, wire.Shape{Format: c.format, MaxItem: 99})
				require.NoError(t, err)
				require.Equal(t, wire.Shape{Format: c.format, Columns: c.columns, MaxItem: 99}, s)
				require.Equal(t, c.rest, c.input[offset:])
			}
		})
	}
}

func TestReadHeadErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		input  string
		offset int64
		text   string
	}{
		"not UTF-8":       {"a,\xe9\n", 0, "not valid UTF-8 at its byte 2: convert the file"},
		"UTF-16":          {"\xff\xfea\x00\n\x00", 0, "not valid UTF-8"},
		"stray quote":     {"\na,b\"c\n", 1, "has a quote in field 2"},
		"behind a quote":  {"\uFEFF\"a\"b\n", 3, "text behind the closing quote of field 1"},
		"open quote":      {"a,\"b\nc\n", 0, "not closed: close the quote"},
		"the same name":   {"a,b,a\n", 0, `columns 1 and 3 both "a": give each`},
		"the same, twice": {"a,\"a\"\n", 0, `columns 1 and 2 both "a"`},
		"no name":         {"a,,b\n", 0, "no name for column 2: give it one"},
		"empty name":      {"\"\"\n", 0, "no name for column 1"},
		"comma at end":    {"a,\n1,2\n", 0, "no name for column 2"},
		"too long":        {strings.Repeat("a", 200) + "\n", 0, "longer than 100 bytes: make sure"},
		"too long, open":  {"\"" + strings.Repeat("a\n", 200) + "\"\n", 0, "not closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := readHead(strings.NewReader(c.input), wire.Shape{Format: CSV, MaxItem: 100})
			var head *HeadError
			require.ErrorAs(t, err, &head)
			require.Equal(t, c.offset, head.Offset)
			require.ErrorContains(t, err, c.text)
		})
	}
}

func TestReadHeadBoundsHeader(t *testing.T) {
	t.Parallel()
	endless := io.LimitReader(iotest.DataErrReader(zeros{}), 1<<30)
	_, _, err := readHead(endless, wire.Shape{Format: CSV})
	require.ErrorContains(t, err, "longer than 1048576 bytes")
}

// zeros is an endless line of NUL bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestReadHeadDefaults(t *testing.T) {
	t.Parallel()
	s, _, err := readHead(strings.NewReader("a\n"), wire.Shape{Format: CSV})
	require.NoError(t, err)
	require.Equal(t, DefaultMaxItem, s.MaxItem, "the table says which limit holds")

	_, _, err = readHead(strings.NewReader("a\n"), wire.Shape{Format: "tsv"})
	var unknown *UnknownFormatError
	require.ErrorAs(t, err, &unknown)
}

func TestReadHeadPassesErrorsOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, begin := range []string{"", "a", "a,b"} {
		_, _, err := readHead(io.MultiReader(strings.NewReader(begin), iotest.ErrReader(broken)), wire.Shape{Format: CSV})
		require.ErrorIs(t, err, broken)
	}
}

func TestShapeAsJSON(t *testing.T) {
	t.Parallel()
	s := wire.Shape{Format: CSV, Columns: []string{"a", "b"}, MaxItem: 5}
	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.JSONEq(t, `{"format":"csv","columns":["a","b"],"max_item":5}`, string(text))
	var back wire.Shape
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, s, back)
}
