package ledger

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestLines_OfAnyLength(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	broken := errors.New("broken")
	for _, c := range []struct {
		from io.Reader
		want []string
		end  error
	}{
		{strings.NewReader(""), nil, io.EOF},
		{strings.NewReader("a\n\nb\r\n"), []string{"a\n", "\n", "b\r\n"}, io.EOF},
		{strings.NewReader(long + "\n" + "a\n" + long + long + "\n"), []string{long + "\n", "a\n", long + long + "\n"}, io.EOF},
		{iotest.OneByteReader(strings.NewReader(long + "\na\n")), []string{long + "\n", "a\n"}, io.EOF},
		{strings.NewReader("a\nb"), []string{"a\n"}, io.ErrUnexpectedEOF},
		{strings.NewReader("a\n" + long), []string{"a\n"}, io.ErrUnexpectedEOF},
		{io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), []string{"a\n"}, broken},
	} {
		lines := NewLines(c.from, 16)
		var got []string
		for {
			line, err := lines.Next()
			if err != nil {
				require.ErrorIs(t, err, c.end)
				break
			}
			got = append(got, string(line))
		}
		require.Equal(t, c.want, got)
	}
}
