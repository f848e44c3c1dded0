package records

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

func TestCutter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		input        string
		format       wire.Format
		items, bytes int64
		want         []Cut
	}{
		"empty":                      {"", Text, 1, 1, nil},
		"blank":                      {"\n \n\t\r\n  ", JSONL, 1, 1, nil},
		"text has no blank lines":    {"\n \n\t\r\n  ", Text, 1, 1, []Cut{{1, 1}, {2, 1}, {3, 1}, {2, 1}}},
		"by items":                   {"a\nb\nc\n", Text, 2, 99, []Cut{{4, 2}, {2, 1}}},
		"by bytes, reached":          {"aa\nbb\ncc\n", Text, 9, 6, []Cut{{6, 2}, {3, 1}}},
		"by bytes, passed":           {"aa\nbb\ncc\n", Text, 9, 4, []Cut{{6, 2}, {3, 1}}},
		"at least one":               {"aa\nbb\n", Text, 0, -1, []Cut{{3, 1}, {3, 1}}},
		"no limit":                   {"aa\nbb\n", Text, math.MaxInt64, math.MaxInt64, []Cut{{6, 2}}},
		"last newline missing":       {"a\nb", Text, 1, 99, []Cut{{2, 1}, {1, 1}}},
		"blank lines go before":      {"\na\n\n \nb\n\n", JSONL, 1, 99, []Cut{{3, 1}, {5, 1}}},
		"blank lines between":        {"\na\n\n \nb\n\n", JSONL, 2, 99, []Cut{{8, 2}}},
		"quoted newlines":            {"\"a\nb\",c\r\nd,e\r\n", CSV, 1, 1, []Cut{{9, 1}, {5, 1}}},
		"quoted newlines, as lines":  {"\"a\nb\",c\r\nd,e\r\n", JSONL, 1, 1, []Cut{{3, 1}, {6, 1}, {5, 1}}},
		"quote never closed":         {"\"a\nb\nc\n", CSV, 1, 1, []Cut{{3, 1}, {2, 1}, {2, 1}}},
		"longer than the limit":      {strings.Repeat("x", 50) + "\ny\n", CSV, 1, 1, []Cut{{51, 1}, {2, 1}}},
		"blank and longer than that": {strings.Repeat(" ", 50) + "\ny\n", CSV, 1, 1, []Cut{{53, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := wire.Shape{Format: c.format, MaxItem: 20}
			got := cutAll(t, NewCutter(strings.NewReader(c.input), s), c.items, c.bytes)
			require.Equal(t, c.want, got)
			got = cutAll(t, NewBytesCutter([]byte(c.input), s), c.items, c.bytes)
			require.Equal(t, c.want, got, "in memory")
		})
	}
}

func TestCutterPassesErrorsOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, format := range map[string]wire.Format{"lines": Text, "records": CSV} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := io.MultiReader(strings.NewReader("a\n\"b\n\"\n\"c"), iotest.ErrReader(broken))
			c := NewCutter(r, wire.Shape{Format: format})
			cut, err := c.Next(1, 99)
			require.NoError(t, err)
			require.Equal(t, Cut{2, 1}, cut)
			cut, err = c.Next(99, 99)
			require.NoError(t, err)
			require.EqualValues(t, 5, cut.Length, "what came before the error")
			for range 2 {
				cut, err = c.Next(99, 99)
				require.ErrorIs(t, err, broken)
				require.Zero(t, cut)
			}
		})
	}
}

func TestCutterEndsOnAReaderThatDoesNotMove(t *testing.T) {
	t.Parallel()
	_, err := NewCutter(stuck{}, wire.Shape{Format: Text}).Next(1, 1)
	require.ErrorIs(t, err, io.ErrNoProgress)
}

// stuck returns nothing, for ever.
type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }
