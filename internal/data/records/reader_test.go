package records

import (
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// texts returns the items' bytes.
func texts(items []Item) []string {
	var out []string
	for _, it := range items {
		out = append(out, string(it.Raw))
	}
	return out
}

func TestReader(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		input  string
		format wire.Format
		want   []string
	}{
		"empty":                       {"", Text, nil},
		"blank":                       {"\n \n\t\r\n  ", CSV, nil},
		"text":                        {"a\n b \n\nc", Text, []string{"a", " b ", "", "c"}},
		"carriage returns stay":       {"a\r\n\r\nb\r\r\nc\r", Text, []string{"a\r", "\r", "b\r\r", "c\r"}},
		"and leave CSV":               {"a\r\n\r\nb\r\r\nc\r", CSV, []string{"a", "b\r", "c"}},
		"quoted newlines":             {"\"a\r\nb\",c\r\nd\n", CSV, []string{"\"a\r\nb\",c", "d"}},
		"quoted blank lines":          {"\"\n\n\"\n\nb\n", CSV, []string{"\"\n\n\"", "b"}},
		"doubled quotes":              {"\"a\"\"\n\",\"\"\"\"\nb\n", CSV, []string{"\"a\"\"\n\",\"\"\"\"", "b"}},
		"quote within a field":        {"5\" disk,\"1\n2\"\nb\n", CSV, []string{"5\" disk,\"1\n2\"", "b"}},
		"quote behind a space":        {"a, \"b\nc\n", CSV, []string{"a, \"b", "c"}},
		"text behind a quote":         {"\"a\" \"b\nc\n", CSV, []string{"\"a\" \"b", "c"}},
		"quote at the very end":       {"a,\"b\n\"", CSV, []string{"a,\"b\n\""}},
		"a quote never closed":        {"a,\"b\n\nc\nd", CSV, []string{"a,\"b", "c", "d"}},
		"each quote never closed":     {"x\",\"y\nx\",\"y\nx\",\"y", CSV, []string{"x\",\"y", "x\",\"y", "x\",\"y"}},
		"binary":                      {"\x00\xff\n\x00\n\x80", Text, []string{"\x00\xff", "\x00", "\x80"}},
		"vertical tab is not a blank": {"\v\n\f\n", Text, []string{"\v", "\f"}},
		"byte order mark is a byte":   {"\uFEFFa\n", Text, []string{"\uFEFFa"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := wire.Shape{Format: c.format}
			require.Equal(t, c.want, texts(readAll(t, NewReader(strings.NewReader(c.input), s), 2, 100)))
			require.Equal(t, c.want, texts(readAll(t, NewBytesReader([]byte(c.input), s), 2, 100)), "in memory")
		})
	}
}

func TestReaderInvalidItems(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 21)
	for name, c := range map[string]struct {
		input string
		want  Item // the second of three items
		text  string
	}{
		"at the limit": {"a\n" + long[1:] + "\nb\n", Item{Raw: []byte(long[1:]), Offset: 2, Size: 20}, ""},
		"too long":     {"a\n" + long + "\nb\n", Item{Offset: 2, Size: 21}, "the item is 21 bytes long, over the limit of 20 bytes (max-item)"},
		"much too long": {"a\n \n" + strings.Repeat(long, 1000) + "\nb\n", Item{Offset: 4, Size: 21000},
			"the item is 21000 bytes long, over the limit of 20 bytes (max-item)"},
		"record too long": {"a\n\"y\n" + strings.Repeat("x", 18) + "\"\n", Item{Raw: []byte("\"y"), Offset: 2, Size: 2},
			"the item has a quoted field that is not closed, at least not within the limit of 20 bytes (max-item)"},
		"record, carriage return": {"a\n\"y\r\nb", Item{Raw: []byte("\"y"), Offset: 2, Size: 3},
			"the item has a quoted field that is not closed, at least not within the limit of 20 bytes (max-item)"},
		"quoted line too long": {"a\n\"" + long + "\nb\n", Item{Offset: 2, Size: 22},
			"the item is 22 bytes long, over the limit of 20 bytes (max-item)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := wire.Shape{Format: CSV, MaxItem: 20}
			items := readAll(t, NewReader(strings.NewReader(c.input), s), 10, 1000)
			require.Len(t, items, 3)
			got := items[1]
			if c.text != "" {
				require.IsType(t, &InvalidError{}, got.Err)
				require.EqualError(t, got.Err, c.text)
				got.Err = nil
			}
			require.Equal(t, c.want, got)
			require.NoError(t, items[0].Err)
			require.NoError(t, items[2].Err)
		})
	}
}

func TestReaderLimits(t *testing.T) {
	t.Parallel()
	const input = "\naa\nbb\n\ncc\ndd"
	for name, c := range map[string]struct {
		items, bytes int
		want         []int // items per chunk
	}{
		"items":                {3, 99, []int{3, 1}},
		"bytes reached":        {9, 4, []int{1, 2, 1}},
		"bytes passed":         {9, 5, []int{2, 2}},
		"at least one":         {0, -5, []int{1, 1, 1, 1}},
		"all":                  {math.MaxInt, math.MaxInt, []int{4}},
		"reached with the end": {9, 13, []int{4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewReader(strings.NewReader(input), wire.Shape{Format: JSONL})
			var c1 Chunk
			var got []int
			for r.Read(&c1, c.items, c.bytes) == nil {
				got = append(got, len(c1.Items))
			}
			require.Equal(t, c.want, got)
			require.Equal(t, io.EOF, r.Read(&c1, 1, 1))
		})
	}
}

// A chunk continues from one range to the next, with its lines behind each other.
func TestReaderAppend(t *testing.T) {
	t.Parallel()
	var c Chunk
	for _, text := range []string{"a\nb", "", strings.Repeat("c", 10_000) + "\n\n", "d\ne\nf\n"} {
		err := NewBytesReader([]byte(text), wire.Shape{Format: JSONL}).Append(&c, 5, 100_000)
		if len(c.Items) < 5 {
			require.Equal(t, io.EOF, err)
		} else {
			require.NoError(t, err)
		}
	}
	want := []string{"a", "b", strings.Repeat("c", 10_000), "d", "e"}
	require.Equal(t, want, texts(c.Items))
	require.Equal(t, strings.Join(want, "\n")+"\n", string(c.Lines()))
	require.EqualValues(t, 2, c.Items[4].Offset, "in its own range")
	c.Reset()
	require.Empty(t, c.Items)
	require.Empty(t, c.Lines())
}

func TestReaderItemsDoNotTouch(t *testing.T) {
	t.Parallel()
	var c Chunk
	require.NoError(t, NewReader(strings.NewReader("aa\nbb\n"), wire.Shape{Format: Text}).Read(&c, 9, 99))
	_ = append(c.Items[0].Raw, '!')
	require.Equal(t, []string{"aa", "bb"}, texts(c.Items))
}

func TestReaderPassesErrorsOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tail := range map[string]string{
		"between items": "", "in a line": "c", "in a record": "\"c\n", "in a long line": strings.Repeat("c", 99),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := io.MultiReader(strings.NewReader("a\nb\n"+tail), iotest.ErrReader(broken))
			r := NewReader(source, wire.Shape{Format: CSV, MaxItem: 20})
			var c Chunk
			require.NoError(t, r.Read(&c, 2, 99))
			for range 2 {
				require.ErrorIs(t, r.Read(&c, 9, 99), broken)
				require.Empty(t, c.Items)
			}
		})
	}
}

// repeated is a reader of n times the same bytes.
func repeated(text string, n int) io.Reader {
	return io.LimitReader(&repeater{text: text}, int64(n)*int64(len(text)))
}

// bytesOf is a reader of size bytes, a multiple of 1 KiB, that are all alike.
func bytesOf(b string, size int) io.Reader { return repeated(strings.Repeat(b, 1<<10), size>>10) }

type repeater struct {
	text string
	at   int
}

func (r *repeater) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		k := copy(p[n:], r.text[r.at:])
		n, r.at = n+k, (r.at+k)%len(r.text)
	}
	return n, nil
}

// TestReaderMemory reads a line of 40 MiB, a blank one of 40 MiB and one just within the limit.
func TestReaderMemory(t *testing.T) { // not parallel: it measures the process
	const size = 40 << 20
	for format, cutterLimit := range map[wire.Format]int{JSONL: 1 << 20, CSV: 4 * DefaultMaxItem} {
		t.Run(string(format), func(t *testing.T) {
			input := func() io.Reader {
				return io.MultiReader(strings.NewReader("a\n\""), bytesOf("x", size), strings.NewReader("\nb\n"),
					bytesOf(" ", size), strings.NewReader("\n"), bytesOf("y", DefaultMaxItem), strings.NewReader("\nc"))
			}
			s := wire.Shape{Format: format}
			var items []Item
			requireAllocates(t, 5*DefaultMaxItem, func() {
				r := NewReader(input(), s)
				var c Chunk
				for r.Read(&c, 1, 1) == nil {
					it := c.Items[0]
					it.Raw = nil
					items = append(items, it)
				}
			})
			require.Len(t, items, 5)
			require.ErrorContains(t, items[1].Err, "over the limit of 16777216 bytes")
			items[1].Err = nil
			require.Equal(t, []Item{
				{Offset: 0, Size: 1}, {Offset: 2, Size: size + 1}, {Offset: size + 4, Size: 1},
				{Offset: 2*size + 7, Size: DefaultMaxItem}, {Offset: 2*size + 8 + DefaultMaxItem, Size: 1},
			}, items)

			var cuts []Cut
			requireAllocates(t, cutterLimit, func() { cuts = cutAll(t, NewCutter(input(), s), 1, 1) })
			require.Len(t, cuts, 5)
		})
	}
}

// TestReaderManyOpenQuotes reads records that each look unfinished up to the limit: a search that
// began anew in each would take hours.
func TestReaderManyOpenQuotes(t *testing.T) {
	t.Parallel()
	const lines = 4_000_000
	c := NewCutter(repeated("x\",\"y\n", lines), wire.Shape{Format: CSV, MaxItem: 4 << 20})
	cut, err := c.Next(math.MaxInt64, math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, Cut{Length: 6 * lines, Count: lines}, cut)
}

// requireAllocates checks that f allocates no more than limit bytes in all, freed ones included.
func requireAllocates(t *testing.T, limit int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(limit))
}

func TestReadDoesNotAllocate(t *testing.T) { // not parallel: it counts the process's allocations
	for _, format := range []wire.Format{JSONL, CSV, Text} {
		r := NewReader(repeated("aaa,\"b\"\"\nb\",c\r\n\n", 10_000_000), wire.Shape{Format: format})
		var c Chunk
		read := func() { require.NoError(t, r.Read(&c, 1000, 1<<20)) }
		read()
		require.Zero(t, testing.AllocsPerRun(1000, read), format)
	}
}
