package records

import (
	"cmp"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/base/formats"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// Each format of the table is in the list of names, and each of the list in the table; both say the same of it.
func TestTable_HasTheFormatsOfTheList(t *testing.T) {
	t.Parallel()
	for _, listed := range formats.All() {
		shape, err := ParseFormat(listed.Name)
		require.NoError(t, err)
		require.Equal(t, wire.Format(cmp.Or(listed.Of, listed.Name)), shape.Format)
		require.NotSame(t, &unknown, formatOf(shape.Format), "%s is not in the table", listed.Name)
		require.Equal(t, listed.Delimited, Delimited(&shape), listed.Name)
		require.Equal(t, listed.Lines, Lines(&shape), listed.Name)
		require.Equal(t, listed.Lines, formatOf(shape.Format).appendJSON == nil, "%s: what is no line is converted", listed.Name)
	}
	for _, f := range table {
		listed, ok := formats.Named(string(f.name))
		require.True(t, ok, "%s is not in the list of names", f.name)
		require.Empty(t, listed.Of, f.name)
	}
}

// A source that is found by an extension of a format, and shows it, has that format.
func TestTable_ExtensionsShowTheirFormat(t *testing.T) {
	t.Parallel()
	for _, listed := range formats.All() {
		for _, extension := range listed.Extensions {
			guess, err := FormatOf("a" + strings.ToUpper(extension))
			require.NoError(t, err)
			shape, err := ParseFormat(listed.Name)
			require.NoError(t, err)
			if guess.Guess != "" {
				shape = wire.Shape{Format: JSONL, Guess: wire.Guess(shape.Format)}
			}
			require.Equal(t, shape, guess)
		}
		shape, _ := ParseFormat(listed.Name)
		require.Equal(t, listed.Extensions[0], FileExtension(&shape))
	}
}

// Items written to a file of their shape are the same ones there, for each format.
func TestAppendToFile(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]struct {
		format, file string
		invalid      int
	}{
		"{\"a\": 1}\n\nno\n":               {"jsonl", "{\"a\": 1}\nno\n", 0},
		"one\n\ntwo\r\n":                   {"text", "one\n\ntwo\r\n", 0},
		"a,\"b\"\"c\"\n1,2\n\"x\ny\",2\n":  {"csv", "\"a\",\"b\"\"c\"\n1,2\n\"x\ny\",2\n", 0},
		"a\tb\n1\t\"2\n":                   {"tsv", "a\tb\n1\t\"2\n", 0},
		"one\ntwo\r\n\x00\x00three\x00":    {"text0", "one\ntwo\r\n\x00\x00three\x00", 0},
		"{\n\"a\": 1}\n[1, 2] {\"b\"} 3\n": {"json", "[{\"a\":1}\n,[1, 2]\n,3\n]", 1},
	} {
		t.Run(want.format, func(t *testing.T) {
			t.Parallel()
			shape, err := ParseFormat(want.format)
			require.NoError(t, err)
			shape, start, err := readHead(strings.NewReader(input), shape)
			require.NoError(t, err)
			var file []byte
			invalid := 0
			for _, item := range readAll(t, NewReader(strings.NewReader(input[start:]), shape), 9, 999) {
				if file, err = AppendToFile(&shape, file, &item, len(file) == 0); err != nil {
					invalid++
				}
			}
			require.Equal(t, want.file, string(AppendFileEnd(&shape, file)))
			require.Equal(t, want.invalid, invalid)
		})
	}
	long := Item{Err: invalid("is too long")}
	file, err := AppendToFile(&wire.Shape{Format: Text}, []byte("x"), &long, false)
	require.ErrorIs(t, err, long.Err)
	require.Equal(t, "x", string(file))
}

// Items are run again as lines: those that were lines as they are, others as JSON.
func TestAsLines(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]wire.Shape{
		"jsonl": {Format: JSONL}, "text": {Format: Text}, "json": {Format: JSONL}, "text0": {Format: JSONL},
		"csv": {Format: JSONL, Records: true}, "tsv": {Format: JSONL, Records: true},
	} {
		shape, err := ParseFormat(name)
		require.NoError(t, err)
		shape.MaxItem, want.MaxItem = 7, 7
		require.Equal(t, want, AsLines(&shape))
	}
}
