package starter_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// screen draws text as a terminal does that knows carriage returns and how to erase the end of a line. It is the least
// forgiving one: a character in the last column begins another row, and it knows nothing else. What is drawn from a
// carriage return on, up to where the rest of the line is erased, must be one row.
type screen struct {
	width, column int
	rows          []row
	drawn         []string // lines that were drawn over another one, since the screen has this width
	faults        []string
	drawing       bool // since a carriage return
	late          bool // what is drawn was made for another width
}

// row is one line of a screen: a character for each column; 0 is the second half of a wide one.
type row struct {
	cells []rune
	full  bool // the text goes on in the next one
}

func newScreen(width int) screen { return screen{width: width, rows: make([]row, 1)} }

// resize gives the screen another width. A line that is drawn next may have been made just before.
func (s *screen) resize(width int) { s.width, s.drawn, s.late = width, nil, true }

var (
	escape = regexp.MustCompile(`^\x1b\[[0-9;?]*[A-Za-z]`)
	begun  = regexp.MustCompile(`^\x1b(\[[0-9;?]*)?$`)
)

// write draws a text, and returns what of its end is not whole yet.
func (s *screen) write(text []byte) (left []byte) {
	for len(text) > 0 {
		if code := escape.Find(text); code != nil {
			s.obey(string(code))
			text = text[len(code):]
			continue
		}
		if begun.Match(text) || !utf8.FullRune(text) {
			break
		}
		r, n := utf8.DecodeRune(text)
		s.put(r)
		text = text[n:]
	}
	return append([]byte(nil), text...)
}

func (s *screen) obey(code string) {
	last := &s.rows[len(s.rows)-1]
	if code != "\x1b[K" {
		s.faults = append(s.faults, fmt.Sprintf("unknown code %q", code))
		return
	}
	last.cells = last.cells[:min(s.column, len(last.cells))]
	if s.drawing && !s.late {
		s.drawn = append(s.drawn, last.String())
	}
	s.drawing, s.late = false, false
}

func (s *screen) put(r rune) {
	switch {
	case r == '\n':
		s.rows = append(s.rows, row{})
		s.drawing = false
	case r == '\r':
		s.column, s.drawing = 0, true
	case unicode.IsControl(r) || r == utf8.RuneError:
		s.faults = append(s.faults, fmt.Sprintf("character %q", r))
	default:
		last := &s.rows[len(s.rows)-1]
		for len(last.cells) < s.column {
			last.cells = append(last.cells, ' ')
		}
		last.cells = append(last.cells[:s.column], append([]rune{r, 0}[:widthOf(r)], last.cells[min(len(last.cells), s.column+widthOf(r)):]...)...)
		if s.column += widthOf(r); s.column < s.width {
			return
		}
		if s.drawing && !s.late {
			s.faults = append(s.faults, fmt.Sprintf("a line of %d columns or more is drawn: %q", s.width, last.String()))
		}
		last.full = true
		s.rows, s.column = append(s.rows, row{}), 0
	}
}

// widthOf is how many columns a character takes.
func widthOf(r rune) int {
	if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) {
		return 2
	}
	return 1
}

func columnsOf(text string) (n int) {
	for _, r := range text {
		n += widthOf(r)
	}
	return n
}

func (r row) String() string { return strings.ReplaceAll(string(r.cells), "\x00", "") }

// String is what stands on the screen, row by row.
func (s *screen) String() string {
	var b strings.Builder
	for _, r := range s.rows {
		b.WriteString(r.String() + "\n")
	}
	return b.String()
}

// joined is what stands on the screen, with lines as they were written.
func (s *screen) joined() string {
	var b strings.Builder
	for _, r := range s.rows {
		b.WriteString(r.String())
		if !r.full {
			b.WriteString("\n")
		}
	}
	return b.String()
}

func TestScreen(t *testing.T) {
	t.Parallel()
	s := newScreen(10)
	require.Equal(t, "\x1b[", string(s.write([]byte("begin\r\n\r55%\x1b["))))
	require.Empty(t, s.write([]byte("\x1b[K\r日本\x1b[K")))
	require.Equal(t, []string{"55%", "日本"}, s.drawn)
	require.Equal(t, "begin\n日本\n", s.String())
	require.Equal(t, "\xe6", string(s.write([]byte("\r\x1b[Kone and two\r\n\xe6"))))
	require.Equal(t, "begin\none and tw\no\n\n", s.String())
	require.Equal(t, "begin\none and two\n\n", s.joined())
	require.Empty(t, s.faults)
	s.write([]byte("\r1234567890\x1b[K\a\x1b[2J"))
	require.Len(t, s.faults, 3, "%q", s.faults)
	s.resize(20)
	s.write([]byte("\r12345678901234567890\x1b[K\rthis one fits\x1b[K"))
	require.Len(t, s.faults, 3, "%q", s.faults)
	require.Equal(t, []string{"this one fits"}, s.drawn)
}
