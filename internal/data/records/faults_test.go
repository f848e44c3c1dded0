package records

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// Of a text every line is an item; of JSON lines and CSV a blank one is none, and is counted.
func TestD21_BlankLines(t *testing.T) {
	t.Parallel()
	const input = "one\n\n \t\r\ntwo\n\n"
	for format, want := range map[wire.Format][]string{Text: {"one", "", " \t\r", "two", ""}, JSONL: {"one", "two"}, CSV: {"one", "two"}} {
		s := wire.Shape{Format: format}
		require.Equal(t, want, texts(readAll(t, NewReader(iotest.OneByteReader(strings.NewReader(input)), s), 2, 100)), format)
		c := NewBytesCutter([]byte(input), s)
		var items, blank int64
		for {
			cut, err := c.Next(1, 100)
			blank += c.TakeBlank()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			items += cut.Count
		}
		require.EqualValues(t, len(want), items, format)
		require.EqualValues(t, 5-len(want), blank, format)
	}
	long := strings.Repeat(" ", 50)
	require.Len(t, readAll(t, NewReader(strings.NewReader(long+"\n"+long), wire.Shape{Format: Text, MaxItem: 10}), 9, 999), 2, "too long is no blank, either")
}

// In CSV without quotes a quote is a byte like any other, in the header, too.
func TestD29_FieldsWithoutQuotes(t *testing.T) {
	t.Parallel()
	const input = "a\t\"b\n1\t\"x\n2\ty\n3\tz\"\n4\tsay \"w\"\n"
	s, start, err := readHead(strings.NewReader(input), wire.Shape{Format: CSV, Delimiter: "\t", Quote: unquoted})
	require.NoError(t, err)
	require.Equal(t, []string{"a", `"b`}, s.Columns)
	var got []string
	for _, it := range readAll(t, NewReader(strings.NewReader(input[start:]), s), 9, 999) {
		line, err := AppendJSON(&s, nil, &it)
		require.NoError(t, err)
		got = append(got, string(line))
	}
	require.Equal(t, []string{`{"a":"1","\"b":"\"x"}`, `{"a":"2","\"b":"y"}`, `{"a":"3","\"b":"z\""}`, `{"a":"4","\"b":"say \"w\""}`}, got)
}

// Lines that end with a carriage return alone are never one item in silence.
func TestD22_OnlyCarriageReturns(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]string{
		"header": "id,name\r1,a\r2,b\r", "longer than a header": strings.Repeat("id,name\r", 1<<20), "behind a quoted name": "\"id\",name\r1,a\r",
	} {
		_, _, err := readHead(strings.NewReader(input), wire.Shape{Format: CSV})
		require.ErrorContains(t, err, "the CSV header at byte 0 has a carriage return in it", name)
		require.ErrorContains(t, err, `tr '\r' '\n'`, name)
	}
	s, _, err := readHead(strings.NewReader("\"i\rd\",name\r\n1,a\r\n"), wire.Shape{Format: CSV})
	require.NoError(t, err)
	require.Equal(t, []string{"i\rd", "name"}, s.Columns, "in quotes it is part of the name")
	for _, format := range []wire.Format{Text, JSONL} {
		head, err := Look(strings.NewReader("1\r2\r3\r"), wire.Shape{Format: format})
		require.NoError(t, err)
		require.Contains(t, head.Hint, `tr '\r' '\n'`)
		head, err = Look(strings.NewReader("1\r\n2\r\n"), wire.Shape{Format: format})
		require.NoError(t, err)
		require.Empty(t, head.Hint)
	}
}

// encoded is a text in UTF-16.
func encoded(text string, high, low func(r rune) byte) string {
	var b strings.Builder
	for _, r := range text {
		b.WriteByte(high(r))
		b.WriteByte(low(r))
	}
	return b.String()
}

func TestD32_UTF16(t *testing.T) {
	t.Parallel()
	big := func(r rune) byte { return byte(r >> 8) }
	little := func(r rune) byte { return byte(r) }
	for _, text := range []string{"id,name\n1,a\n", "код,имя\n1,а\n2,б\n", "\ufeffid\n1\n"} {
		for encoding, input := range map[string]string{"UTF-16BE": encoded(text, big, little), "UTF-16LE": encoded(text, little, big)} {
			for _, format := range []wire.Format{CSV, Text, JSONL, JSON} {
				_, err := Look(strings.NewReader(input), wire.Shape{Format: format})
				require.ErrorContains(t, err, "iconv -f "+encoding, "%s of %q", format, text)
			}
		}
	}
	for _, text := range []string{"abc\x00def\x00ghi\x00jkl\x00", "a", "\x00", ""} {
		_, err := Look(strings.NewReader(text), wire.Shape{Format: Text})
		require.NoError(t, err, "%q", text)
	}
	_, err := Look(strings.NewReader("a\x00b,c\n"), wire.Shape{Format: CSV})
	require.ErrorContains(t, err, "zero byte in the name of column 1")
}

// What an input is shows by its first bytes, and the message says what to do.
func TestR1_CompressedData(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ data, want string }{
		"gzip": {string(gzipped(t, "a")), "is gzip data: give its name the ending .gz"}, "zstd": {string(zstandard(t, "a")), "is zstd data: give its name the ending .zst"},
		"bzip2": {"BZh91AY&SY\x01", "bzcat FILE | stint run -"}, "xz": {"\xfd7zXZ\x00\x00", "xzcat"}, "zip": {"PK\x03\x04\x14", "zip archive"},
		"parquet": {"PAR1\x15\x04\x15", "Parquet file"},
	} {
		for _, format := range []wire.Format{Text, CSV, JSONL} {
			for _, r := range []io.Reader{strings.NewReader(c.data), iotest.OneByteReader(strings.NewReader(c.data))} {
				if _, err := Look(r, wire.Shape{Format: format}); name != "bzip2" && name != "zip" || err != nil {
					require.ErrorContains(t, err, c.want, name)
				}
			}
		}
	}
	for _, text := range []string{"BZhang\n", "PAR1", "PAR1\n", "PAR1\t2\r\n", "PAR1é\n", "PAR1,x\n"} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			_, err := Look(r, wire.Shape{Format: Text})
			require.NoError(t, err, text)
		}
	}
	read := func(data []byte, c wire.Compression) (string, error) {
		r, err := Decompress(bytes.NewReader(data), c)
		if err != nil {
			return "", err
		}
		defer r.Close()
		text, err := io.ReadAll(r)
		return string(text), err
	}
	gz := gzipped(t, "one\ntwo\n")
	padded := append(append(bytes.Clone(gz), make([]byte, 10_000)...), gz...)
	text, err := read(append(padded, 0), Gzip)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\none\ntwo\n", text, "zeros are padding")
	for _, c := range []struct {
		data []byte
		as   wire.Compression
		want string
	}{
		{[]byte("short\n"), Gzip, "it is not gzip data: take .gz off its name"}, {[]byte("1\n"), Zstd, "it is not zstd data: take .zst off its name"},
		{[]byte("plain text\n"), Gzip, "it is not gzip data: take .gz off its name"}, {[]byte("plain text\n"), Zstd, "it is not zstd data: take .zst off its name"},
		{gz[:len(gz)-9], Gzip, "it is truncated"}, {gz[:5], Gzip, "it is truncated"}, {zstandard(t, strings.Repeat("abc", 999))[:12], Zstd, "it is truncated"},
		{append(bytes.Clone(gz), "some more text"...), Gzip, "follows the gzip data at byte "},
		{append(bytes.Clone(gz), "garbage"...), Gzip, "follows the gzip data at byte "}, // shorter than a member's header
		{append(bytes.Clone(gz), 'x'), Gzip, "follows the gzip data at byte "},
		{append(bytes.Clone(gz), 0, 0x1f), Gzip, "truncated"},
		{append(zstandard(t, "a"), "some more text"...), Zstd, "follows the zstd data"},
	} {
		_, err := read(c.data, c.as)
		require.ErrorContains(t, err, c.want)
	}
	_, err = FormatOf("in.csv.bz2")
	require.ErrorContains(t, err, ".bz2 is not supported: bzcat in.csv.bz2 | stint run")
}

// A byte order mark in the middle is noticed, that of the source is none.
func TestR7_ByteOrderMarkWithin(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]bool{mark + "a\n" + mark + "b\n": true, mark + "a\nb" + mark + "\n": false} {
		head, err := Look(strings.NewReader(input), wire.Shape{Format: Text})
		require.NoError(t, err)
		c := NewBytesCutter([]byte(input[head.Start:]), head.Shape)
		_, err = c.Next(9, 99)
		require.NoError(t, err)
		require.Equal(t, want, c.Marked(), "%q", input)
	}
}

func TestR8_HeaderOfOneColumn(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		"a;b\n1;2\n": `choose --delimiter ";"`, "a\tb\n": `choose --delimiter "\t"`, "<html>\n<body>\n": "as HTML and XML do", "a\n1;2\n": "", "a;b,c\n": "",
	} {
		head, err := Look(strings.NewReader(input), wire.Shape{Format: CSV})
		require.NoError(t, err)
		require.Contains(t, head.Hint, want)
		require.Equal(t, want == "", head.Hint == "", "%q: %s", input, head.Hint)
	}
}

func TestR9_SeveralValuesOnALine(t *testing.T) {
	t.Parallel()
	s := wire.Shape{Format: JSONL}
	_, err := AppendJSON(&s, nil, &Item{Raw: []byte(`{"a":1}{"a":2}`)})
	require.ErrorContains(t, err, "use --format json")
}

// R9: what comes on the standard input is text, and JSON documents in it are noticed.
func TestR9_DocumentsInAText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{\n  \"a\": 1\n}\n": "a JSON document of several lines", "\n[\n1,\n2]": "a JSON document of several lines",
		`{}{}`: "several JSON values on a line", `{"a":1} [2]` + "\n": "several JSON values on a line",
		"{\"a\":1}\n{\"a\":2}\n": "", "[1,2]\n": "", "[x] log line {\n": "", "{\n": "", "": "", "[ERROR] {}{}\n": "",
	} {
		head, err := Look(strings.NewReader(text), wire.Shape{Format: Text})
		require.NoError(t, err)
		require.Contains(t, head.Hint, want)
		require.Equal(t, want == "", head.Hint == "", "%q: %s", text, head.Hint)
	}
	head, err := Look(strings.NewReader("{}{}"), wire.Shape{Format: JSON})
	require.NoError(t, err)
	require.Empty(t, head.Hint)
}
