package frames

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// readers read the same text in different pieces.
func readers(text string) map[string]io.Reader {
	return map[string]io.Reader{
		"at once":        strings.NewReader(text),
		"byte by byte":   iotest.OneByteReader(strings.NewReader(text)),
		"halves":         iotest.HalfReader(strings.NewReader(text)),
		"with the error": iotest.DataErrReader(strings.NewReader(text)),
	}
}

// all reads to the end.
func all(r *Reader) (lines []string, err error) {
	for {
		line, err := r.Next()
		if err != nil {
			return lines, err
		}
		lines = append(lines, string(line))
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", firstBuffer)
	for text, want := range map[string][]string{
		"":                            nil,
		"\n \r\n\t\n":                 nil,
		"a\nb\n":                      {"a", "b"},
		" a \r\n\n\nb\n":              {" a \r", "b"},
		long + "\na\n" + long + "\n":  {long, "a", long},
		strings.Repeat("x\n", 50_000): strings.Split(strings.Repeat("x\n", 50_000), "\n")[:50_000],
	} {
		for name, from := range readers(text) {
			r := NewReader(from, len(long))
			got, err := all(r)
			require.Equal(t, io.EOF, err, name)
			require.Equal(t, want, got, name)
			require.EqualValues(t, len(text), r.Taken(), name)
			_, err = r.Next()
			require.Equal(t, io.EOF, err, "it stays at the end")
		}
	}
}

func TestReader_Limit(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 10, firstBuffer - 1, firstBuffer, firstBuffer + 1, 5 * firstBuffer} {
		most := strings.Repeat("m", limit)
		for name, from := range readers("a\n" + most + "\n" + most + "!\nb\n") {
			got, err := all(NewReader(from, limit))
			require.Equal(t, []string{"a", most}, got, name)
			require.EqualError(t, err, fmt.Sprintf("a frame of more than %d bytes: %q…", limit, (most + "!")[:min(limit+1, shown)]), name)
		}
	}
}

// A frame without end is not read for ever, nor are blanks.
func TestReader_EndlessFrame(t *testing.T) {
	t.Parallel()
	for _, c := range []byte{'x', ' '} {
		_, err := NewReader(endless(c), 1<<20).Next()
		require.ErrorContains(t, err, "a frame of more than ")
	}
}

type endless byte

func (e endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(e)
	}
	return len(b), nil
}

func TestReader_LastLineWithoutEnd(t *testing.T) {
	t.Parallel()
	for name, from := range readers("a\n{\"type\":") {
		r := NewReader(from, 100)
		got, err := all(r)
		require.Equal(t, []string{"a"}, got, name)
		var broken *BrokenError
		require.ErrorAs(t, err, &broken, name)
		require.Equal(t, `{"type":`, broken.Text)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		_, err = r.Next()
		require.Equal(t, io.EOF, err, name)
	}
}

// After an error of the stream, such as a deadline, reading continues where it was.
func TestReader_GoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	r := NewReader(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("ab\nc\n"))), 100)
	_, err := r.Next()
	require.ErrorIs(t, err, iotest.ErrTimeout)
	got, err := all(r)
	require.Equal(t, io.EOF, err)
	require.Equal(t, []string{"ab", "c"}, got)
}

// What a large frame has taken is given back.
func TestReader_Memory(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 40*firstBuffer)
	pieces := []io.Reader{strings.NewReader(large + "\n"), strings.NewReader("a\n"), strings.NewReader("b\n")}
	r := NewReader(io.MultiReader(pieces...), MaxFrame)
	line, err := r.Next()
	require.NoError(t, err)
	require.Len(t, line, len(large))
	got, err := all(r)
	require.Equal(t, io.EOF, err)
	require.Equal(t, []string{"a", "b"}, got)
	require.LessOrEqual(t, cap(r.buf), 16*firstBuffer)
}

// FuzzReader: whatever the pieces, the lines are those of the text, up to the first that is too long.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{"", "a\nb", "\n\n \na\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nb\n", " \t\r\n\x00\n\xff\n"} {
		f.Add(seed, uint8(10), uint8(3))
		f.Add(seed, uint8(40), uint8(1))
	}
	f.Fuzz(func(t *testing.T, text string, limit, piece uint8) {
		got, err := all(NewReader(&pieces{text, 1 + int(piece)}, int(limit)))
		var want []string
		for rest := text; ; {
			line, more, ended := strings.Cut(rest, "\n")
			if len(line) > int(limit) {
				require.ErrorContains(t, err, "a frame of more than ")
				break
			}
			if !ended {
				if line == "" {
					require.Equal(t, io.EOF, err)
				} else {
					require.True(t, errors.Is(err, io.ErrUnexpectedEOF), "%v", err)
				}
				break
			}
			if strings.TrimSpace(line) != "" {
				want = append(want, line)
			}
			rest = more
		}
		require.Equal(t, want, got)
	})
}

// pieces reads a text in pieces of a size.
type pieces struct {
	text string
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.text)
	p.text = p.text[n:]
	return n, nil
}
