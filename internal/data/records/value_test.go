package records

import (
	"io"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// 14.13: the elements of an array, and values one after the other, whatever lines they are on.
func TestReaderValues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		input string
		array bool
		want  []string
	}{
		"pretty-printed":             {"\n  {\n    \"a\": 1\n  },\n  {\n    \"a\": 2\n  }\n]\n", true, []string{"{\n    \"a\": 1\n  }", "{\n    \"a\": 2\n  }"}},
		"on one line":                {`{"a":[1,{}]},"x",3,null]`, true, []string{`{"a":[1,{}]}`, `"x"`, "3", "null"}},
		"empty":                      {" \n]", true, nil},
		"comma first":                {"1\n ,2\n]", true, []string{"1", "2"}},
		"brackets in strings":        {`"],[","\"],",{"}":"]"}]`, true, []string{`"],["`, `"\"],"`, `{"}":"]"}`}},
		"a fault in an element":      {`{"a":tru},{"b":1]},2]`, true, []string{`{"a":tru}`, `{"b":1]}`, "2"}},
		"no comma":                   {`{"a":1} {"b":2},3]`, true, []string{`{"a":1} {"b":2}`, "3"}},
		"no value":                   {"1,,2,]", true, []string{"1", "", "2", ""}},
		"values on lines":            {"{\"a\":1}\n[2]\n\n3\n\"x\"\n", false, []string{`{"a":1}`, "[2]", "3", `"x"`}},
		"pretty-printed values":      {"{\n  \"a\": {}\n}\n{\n  \"a\": []\n}", false, []string{"{\n  \"a\": {}\n}", "{\n  \"a\": []\n}"}},
		"values without white space": {`{}[]"a"1[2]true{}`, false, []string{"{}", "[]", `"a"`, "1", "[2]", "true", "{}"}},
		"commas between values":      {"{},\n{}", false, []string{"{}", ",", "{}"}},
		"a bracket too many":         {"{}}\n{}", false, []string{"{}", "}", "{}"}},
		"the last one is cut short":  {"{}\n{\"a\":", false, []string{"{}", `{"a":`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := wire.Shape{Format: JSON, Array: c.array}
			require.Equal(t, c.want, texts(readAll(t, NewReader(strings.NewReader(c.input), s), 2, 100)))
			require.Equal(t, c.want, texts(readAll(t, NewBytesReader([]byte(c.input), s), 2, 100)), "in memory")
		})
	}
}

func TestCutterArrays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		input      string
		want       []Cut
		err        string
		incomplete string
	}{
		"closed":            {"1, 22\n,3\n]\n ", []Cut{{6, 2}, {3, 1}}, "", ""},
		"empty":             {"]", nil, "", ""},
		"not closed":        {"1,2,3", []Cut{{3, 2}, {2, 1}}, "", "at byte 5, the input ends, and its array is not closed"},
		"cut short":         {`1,{"a":`, []Cut{{7, 2}}, "", "at byte 7, the input ends, and its array is not closed"},
		"cut behind comma":  {`1,`, []Cut{{2, 2}}, "", "at byte 2, the input ends, and its array is not closed"},
		"a second array":    {"1,2,3]\n[4]\n", []Cut{{3, 2}, {2, 1}}, "at byte 7, something follows the end of the array", ""},
		"a bracket too few": {`1,[2,3]`, []Cut{{7, 2}}, "", "at byte 7, the input ends, and its array is not closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, cutter := range []*Cutter{NewCutter(strings.NewReader(c.input), wire.Shape{Format: JSON, Array: true}), NewBytesCutter([]byte(c.input), wire.Shape{Format: JSON, Array: true})} {
				var cuts []Cut
				var err error
				for {
					var cut Cut
					if cut, err = cutter.Next(2, 99); err != nil {
						break
					}
					cuts = append(cuts, cut)
				}
				require.Equal(t, c.want, cuts)
				_, again := cutter.Next(2, 99)
				require.Equal(t, err, again)
				if c.err != "" {
					require.IsType(t, &ArrayError{}, err)
					require.EqualError(t, err, c.err)
					continue
				}
				require.Equal(t, io.EOF, err)
				if c.incomplete == "" {
					require.NoError(t, cutter.Incomplete())
					continue
				}
				require.EqualError(t, cutter.Incomplete(), c.incomplete)
			}
		})
	}
}

// A value that is too long is passed over without being held.
func TestReaderValuesTooLong(t *testing.T) {
	t.Parallel()
	long := `{"x":"` + strings.Repeat(`],\"`, 1000) + `"}`
	for _, array := range []bool{false, true} {
		input := "1 " + long + " 2"
		if array {
			input = "1," + long + ",2]"
		}
		items := readAll(t, newReader(strings.NewReader(input), wire.Shape{Format: JSON, Array: array, MaxItem: 20}, 16), 2, 100)
		require.Len(t, items, 3)
		require.Equal(t, "2", string(items[2].Raw))
		require.Nil(t, items[1].Raw)
		require.EqualValues(t, len(long), items[1].Size)
		require.ErrorContains(t, items[1].Err, "over the limit of 20 bytes")
	}
}

// What the first line shows: see lookAt.
func TestReadHeadLooks(t *testing.T) {
	t.Parallel()
	chosen, byJSON, byJSONL := wire.Shape{Format: JSON}, wire.Shape{Format: JSONL, Guess: nameJSON}, wire.Shape{Format: JSONL, Guess: nameJSONL}
	for name, c := range map[string]struct {
		input               string
		chosen, json, jsonl string // "lines", "values" or "array"
		start               int64  // of an array
		chosenAt            int64
	}{
		"empty":                      {"", "values", "lines", "lines", 0, 0},
		"objects on lines":           {"{\"a\":1}\n{}\n", "values", "lines", "lines", 0, 0},
		"arrays on lines":            {"[1,2]\n[3,4]\n", "values", "lines", "lines", 0, 0},
		"one array on a line":        {" [1,2]\n\n", "array", "array", "lines", 2, 0},
		"one array without a line":   {"[]", "array", "array", "lines", 1, 0},
		"jq":                         {"[\n  {\n    \"a\": 1\n  }\n]\n", "array", "array", "array", 1, 0},
		"an element a line":          {"\n[{\"a\":1},\r\n{\"a\":2}]\n", "array", "array", "array", 2, 0},
		"elements begin with commas": {"[{\"a\":1}\n,{\"a\":2}]\n", "array", "array", "lines", 1, 0},
		"a mark before it":           {"\uFEFF[\n1]", "array", "array", "array", 4, 3},
		"the first line is broken":   {"[1,\"2\n[3,4]\n", "array", "array", "lines", 1, 0},
		"a string ends like that":    {"[1,\"2,\n[3,4]\n", "array", "array", "lines", 1, 0},
		"an object is broken":        {"{\"a\":\n{}\n", "values", "lines", "lines", 0, 0},
		"a pretty object":            {"{\n  \"a\": 1\n}\n", "values", "values", "values", 0, 0},
		"two on a line":              {"[1] [2]\n", "values", "lines", "lines", 0, 0},
		"longer than an item":        {"[" + strings.Repeat("1,", 100) + "1]\n", "array", "array", "lines", 1, 0},
		"text":                       {"abc\n", "values", "lines", "lines", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, guess := range []wire.Shape{chosen, byJSON, byJSONL} {
				guess.MaxItem = 100
				got, start, err := readHead(strings.NewReader(c.input), guess)
				require.NoError(t, err)
				want, at := wire.Shape{Format: JSONL, MaxItem: 100}, c.chosenAt
				switch []string{c.chosen, c.json, c.jsonl}[i] {
				case "values":
					want.Format = JSON
				case "array":
					want.Format, want.Array, at = JSON, true, c.start
				}
				require.Equal(t, want, got, "%+v", guess)
				require.Equal(t, at, start, "%+v", guess)
			}
		})
	}
	_, _, err := readHead(strings.NewReader(" [ ,1]"), byJSON)
	require.EqualError(t, err, "at byte 1, the array begins with a comma")
}

// 14.13: a tab that delimits is no blank, and any other delimiter works like a comma.
func TestDelimiters(t *testing.T) {
	t.Parallel()
	for delimiter, input := range map[string]string{
		"\t": "a\tb,\n1\t\"x\ty\"\n\t\n\"q\n\"\t2\n",
		";":  "a;b,\n1;\"x\ty\"\n;\n \t\n\"q\n\";2\n",
		" ":  "a b,\n1 \"x\ty\"\n \n\"q\n\" 2\n",
	} {
		s, start, err := readHead(strings.NewReader(input), wire.Shape{Format: CSV, Delimiter: delimiter})
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b,"}, s.Columns)
		var got []string
		for _, it := range readAll(t, NewReader(strings.NewReader(input[start:]), s), 10, 100) {
			line, err := AppendJSON(&s, nil, &it)
			require.NoError(t, err)
			got = append(got, string(line))
		}
		require.Equal(t, []string{`{"a":"1","b,":"x\ty"}`, `{"a":"","b,":""}`, `{"a":"q\n","b,":"2"}`}, got, "%q", delimiter)
	}
}
