package records

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// seeds are inputs at which a scanner could go wrong.
var seeds = []string{
	"", "\n", "a", "a\n", "a\nb", "a\r\nb\r\n", "\n \t\r\n\na\n\n\nb\n\n", " a\n\v\n\f\n",
	"{\"a\":1}\n[]\n\n7\n", "\x00\x00\n\xff\xfe\n", "a\rb\r\rc\r", "\r", "\"", "\"\"", "\"\n", "\n\"",
	"a,b\n\"x\ny\",z\n", "\"a\"\"\n\"\"b\",c\nd,e\n", "a\"b\nc\n", "\"a\"b\nc\n\"d\n", "\"a\nb\nc\nd\ne\n",
	"x\",\"y\nx\",\"y\nx\",\"y\nx\",\"y\n", "a,\"b\nc,\"d\ne,\"f\n", "\"aaaaaaaaaaaaaaa\"\nb\n", "\"aaaaaaaaa\nbbbb\"\nc\n",
	"\"aaaaaaaaa\nbbbbb\"\nc\n", "0123456789abcdef\n0123456789abcdefg\nx\n", "\"0123456789abc\n\"\n\n\"\n\"x\n",
	"                       \nx\n", "                       x\ny\n", "\"a\n\"\n\"\"\n\"\"\"\n\"\"\"\"\n", "\"a\n\r\n \n\"\r\nb\r\n",
	"\"\n\"\n\"\n\"\n\"\n\"\n\"\n\"\n\"\n\"\n\"\n\"\n\"\n\"\n", "a,b,\"c\nd,e,f\"\"\n\"\"\n\"\ng",
	"a;b\n\"c;\n\";d\n;\"e\n\"\n", "a\tb\n\t\n \n\t\"\n\"\n",
	"{\"a\":1},\n{\"b\":\"x,]\\\"\"}]\n", "1 , 2,\n[3,4],\"],\"]", "1,,2,]", "]", " ] x", "{\"a\":[1,{}]}{}[] 7 8\"x\"y\n", "1,{\"a\":]",
	"\"aaaaaaaaaaaaaaaaaaaaaaa\",{\"b\":1}      ,2]", "}],2", ",1]",
	"a\x00\x00b\nc\r\x00d\x00", "\x00aaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x00b",
}

// shapes are the shapes in which inputs are cut and read.
var shapes = []wire.Shape{
	{Format: JSONL}, {Format: CSV}, {Format: Text}, {Format: CSV, Delimiter: ";"}, {Format: CSV, Delimiter: "\t"}, {Format: CSV, Delimiter: "\t", Quote: unquoted}, {Format: CSV, Quote: unquoted}, {Format: JSON}, {Format: JSON, Array: true},
	{Format: Text0},
}

// shape returns one of the shapes.
func shape(number uint8, limit int) wire.Shape {
	s := shapes[int(number)%len(shapes)]
	s.MaxItem = limit
	return s
}

// addSeeds adds each seed with various sizes.
func addSeeds(f *testing.F) {
	for i, seed := range seeds {
		for format := range uint8(len(shapes)) {
			f.Add([]byte(seed), format, uint8(16), uint8(1+i%3), uint8(i*7), uint8(1+i%20), i%2 == 0)
			f.Add([]byte(seed), format, uint8(i%9), uint8(200), uint8(200), uint8(i*31), false)
		}
	}
}

// source is an input as a reader that returns it all at once, or byte by byte.
func source(data string, bytewise bool) io.Reader {
	if bytewise {
		return iotest.OneByteReader(strings.NewReader(data))
	}
	return iotest.DataErrReader(strings.NewReader(data))
}

// FuzzCut: whatever the bytes, the cuts, the format, the limit and the reads, cuts tile the input,
// reading cut by cut gives what a read of the whole gives, and that is what the reference gives.
func FuzzCut(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, input []byte, format, limit, items, size, window uint8, bytewise bool) {
		requireCuts(t, string(input), shape(format, int(limit)), int(items), int(size), int(window), bytewise)
	})
}

// TestCutRandom is FuzzCut on inputs of the bytes that mean something, so that quotes, blank lines
// and limits meet often.
func TestCutRandom(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	alphabets := []string{"\"\"\"\n\n,ab \r", "\"\n\nx,", "\",\"\nab\x00 \t\r\xff", "\n ab", "\"\n\n\t; x", "[]{},,\"\\1 \n", "1,,{} [\n\t"}
	for range 20_000 {
		alphabet := alphabets[random.IntN(len(alphabets))]
		input := make([]byte, random.IntN(120))
		for i := range input {
			input[i] = alphabet[random.IntN(len(alphabet))]
		}
		s := shape(uint8(random.IntN(len(shapes))), 1+random.IntN(40))
		items, size, window := random.IntN(5), random.IntN(50), random.IntN(40)
		requireCuts(t, string(input), s, items, size, window, random.IntN(2) == 0)
	}
}

// requireCuts cuts data with limits of items and size, and reads it, through windows of about the
// given size, both by cuts and as a whole.
func requireCuts(t *testing.T, data string, s wire.Shape, items, size, window int, bytewise bool) {
	want, end, wantErr := reference(data, s)
	if wantErr != nil { // what follows an array
		_, err := drain(newReader(source(data, !bytewise), s, 1+window/3))
		require.Equal(t, wantErr, err, "input %q", data)
		c := newCutter(source(data, bytewise), s, 1+window)
		for err = nil; err == nil; {
			_, err = c.Next(int64(items), int64(size))
		}
		require.Equal(t, wantErr, err, "input %q", data)
		data = data[:end]
	}
	whole := readAll(t, newReader(source(data, !bytewise), s, 1+window/3), 3, 1<<20)
	require.Equal(t, want, whole, "input %q", data)

	var got []Item
	var begin int64
	c := newCutter(source(data, bytewise), s, 1+window)
	for _, cut := range cutAll(t, c, int64(items), int64(size)) {
		part := data[begin : begin+cut.Length]
		read := readAll(t, newReader(source(part, bytewise), s, 1+window/2), 1+size, items)
		require.Len(t, read, int(cut.Count), "input %q", data)
		requireLimits(t, cut, read, int64(items), int64(size))
		requireRests(t, part, s, 1+window/2, read)
		for _, it := range read {
			it.Offset += begin
			got = append(got, it)
		}
		begin += cut.Length
	}
	require.Equal(t, want, got, "input %q", data)
	requireSums(t, newCutter(source(data, bytewise), s, 1+window).summing(), data, int64(items), int64(size))
	rest := strings.Trim(data[begin:], " \t\r\n")
	if !s.Array {
		require.Empty(t, rest)
		return
	}
	require.Contains(t, []string{"", "]"}, rest)
	require.Equal(t, rest == "]", c.Incomplete() == nil, "input %q", data)
}

// requireSums checks the sum of each cut of data.
func requireSums(t *testing.T, c *Cutter, data string, items, size int64) {
	for begin := int64(0); ; {
		cut, err := c.Next(items, size)
		if err != nil {
			return
		}
		part := data[begin : begin+cut.Length]
		require.Equal(t, crc32.Checksum([]byte(part), castagnoli), c.Sum(), "%q of input %q", part, data)
		begin += cut.Length
	}
}

// drain reads to the end and returns what was there, and the error unless it is io.EOF.
func drain(r *Reader) (items int, err error) {
	var c Chunk
	for {
		if err := r.Read(&c, 3, 1<<20); err == io.EOF {
			return items, nil
		} else if err != nil {
			return items, err
		}
		items += len(c.Items)
	}
}

// requireLimits checks that a cut ends with the item that reaches a limit.
func requireLimits(t *testing.T, cut Cut, read []Item, items, size int64) {
	last := read[len(read)-1]
	if last.Bare {
		require.LessOrEqual(t, last.Behind(), cut.Length)
	} else {
		require.GreaterOrEqual(t, last.Behind(), cut.Length)
	}
	require.LessOrEqual(t, cut.Count, max(items, 1))
	if len(read) > 1 {
		before := read[len(read)-2]
		require.Less(t, before.Behind(), max(size, 1), "the cut was full before its last item")
	}
}

// requireRests checks that what is left of a range behind any of its items holds the others.
func requireRests(t *testing.T, part string, s wire.Shape, window int, items []Item) {
	for i, it := range items[:len(items)-1] {
		behind := it.Behind()
		rest := readAll(t, newReader(strings.NewReader(part[behind:]), s, window), 1000, 1<<20)
		for j := range rest {
			rest[j].Offset += behind
		}
		require.Equal(t, items[i+1:], rest)
	}
}

// FuzzCutCSV: what encoding/csv takes for a valid file gives the same fields here.
func FuzzCutCSV(f *testing.F) {
	for _, seed := range seeds {
		f.Add("a,b\n" + seed)
		f.Add(seed)
	}
	f.Add("a,b\r\n\"1\r\n2\",\"\"\"\"\r\n\r\n,\r\n")
	f.Fuzz(func(t *testing.T, data string) {
		std := csv.NewReader(strings.NewReader(data))
		want, err := std.ReadAll()
		if err != nil || !utf8.ValidString(data) || strings.HasPrefix(data, "\uFEFF") || hasBlankLine(data) {
			t.Skip()
		}
		s, offset, err := readHead(strings.NewReader(data), wire.Shape{Format: CSV})
		if err != nil {
			t.Skip()
		}
		if len(want) == 0 {
			require.Empty(t, s.Columns)
			return
		}
		got := [][]string{s.Columns}
		for _, it := range readAll(t, NewReader(strings.NewReader(data[offset:]), s), 10, 100) {
			text, err := AppendJSON(&s, nil, &it)
			require.NoError(t, err)
			got = append(got, valuesOf(t, s, text))
		}
		for _, rec := range got {
			for i, value := range rec { // encoding/csv turns the line ends in a field into \n
				rec[i] = strings.ReplaceAll(value, "\r\n", "\n")
			}
		}
		require.Equal(t, want, got)
	})
}

// hasBlankLine reports whether a line has nothing but blanks, and at least one: a record of one field
// for encoding/csv, and no item here.
func hasBlankLine(data string) bool {
	for line := range strings.Lines(data) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if line != "" && strings.Trim(line, " \t\r") == "" {
			return true
		}
	}
	return false
}

// valuesOf returns an object's values, whose keys must be the columns.
func valuesOf(t *testing.T, s wire.Shape, object []byte) []string {
	var values []string
	d := json.NewDecoder(bytes.NewReader(object))
	for i := -1; ; i++ {
		token, err := d.Token()
		if err == io.EOF {
			return values
		}
		require.NoError(t, err)
		if _, brace := token.(json.Delim); brace {
			continue
		}
		if i%2 == 0 {
			require.Equal(t, s.Columns[i/2], token)
			continue
		}
		values = append(values, token.(string))
	}
}

// FuzzAppend: an item is encoded as one valid line of JSON, the one encoding/json makes of the same
// value, or there is an error and nothing is appended.
func FuzzAppend(f *testing.F) {
	for _, seed := range append(seeds, "<&>\u2028\u2029\u2027 é\U0001F600\x7f", "\b\f\t\x01\\/", "a\xe2\x80\xa8", "\xe2") {
		for format := range uint8(len(shapes)) {
			f.Add([]byte(seed), format)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, format uint8) {
		s := shape(format, 0)
		s.Columns = []string{"a\u2028<\"", "b"}
		prefix := []byte("prefix")
		it := Item{Raw: raw, Size: int64(len(raw))}
		for _, appendTo := range []func([]byte, *Item) ([]byte, error){
			func(dst []byte, it *Item) ([]byte, error) { return AppendJSON(&s, dst, it) },
			func(dst []byte, it *Item) ([]byte, error) { return AppendLine(&s, dst, it) },
		} {
			got, err := appendTo(prefix, &it)
			require.True(t, bytes.HasPrefix(got, prefix))
			if err != nil {
				require.IsType(t, &InvalidError{}, err)
				require.Equal(t, prefix, got)
			}
		}
		got, err := AppendJSON(&s, nil, &it)
		if err != nil {
			return
		}
		require.True(t, json.Valid(got))
		require.True(t, utf8.Valid(got))
		require.NotContains(t, string(got), "\n")
		if s.Format == Text {
			require.Equal(t, marshal(t, strings.TrimSuffix(string(raw), "\r")), string(got))
		}
		if s.Format == Text0 {
			require.Equal(t, marshal(t, string(raw)), string(got))
		}
	})
}

// marshal is encoding/json's encoding without escapes for HTML.
func marshal(t *testing.T, value any) string {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(value))
	return strings.TrimSuffix(out.String(), "\n")
}

// FuzzValid holds the fast check of jsonl items against encoding/json's.
func FuzzValid(f *testing.F) {
	for _, seed := range []string{`{}`, `[1,2.5e-3]`, `"\u00e9\n"`, ` null `, `{"a":}`, `01`, `-`, `1.`, `1e`, "\"\x01\"", `"\x"`, `"\u12"`, `[,]`, `{"a":1,}`, `tru`, ``, ` `, `1 2`, "\"\x7f\"", `{"a" 1}`, `{1:2}`, `[[[]]]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		require.Equal(t, json.Valid(raw), checkJSON(raw) == nil, "%q", raw)
	})
}
