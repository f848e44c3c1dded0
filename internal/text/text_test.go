package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		limit      int
		want       string
	}{
		{"short", "abc", 3, "abc"},
		{"empty", "", 0, ""},
		{"long", "abcd", 3, "abc…"},
		{"nothing left", "abcd", 0, "…"},
		{"below 0", "abcd", -1, "…"},
		{"between runes", "äöü", 4, "äö…"},
		{"inside a rune of two bytes", "äöü", 3, "ä…"},
		{"inside a rune of four bytes", "a😀b", 2, "a…"},
		{"one byte before its end", "a😀b", 4, "a…"},
		{"at its end", "a😀b", 5, "a😀…"},
		{"inside the first rune", "😀", 3, "…"},
		{"not UTF-8", "\x80\x80\x80\x80\x80\x80", 5, "\x80\x80\x80\x80\x80…"},
	} {
		require.Equal(t, c.want, Cut(c.text, c.limit), c.name)
	}
}

func TestCut_StaysValid(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat("aä€😀", 5)
	for limit := range len(whole) + 1 {
		got := Cut(whole, limit)
		require.True(t, utf8.ValidString(got), "%q", got)
		require.LessOrEqual(t, len(strings.TrimSuffix(got, "…")), limit)
		require.True(t, strings.HasPrefix(whole, strings.TrimSuffix(got, "…")))
	}
}
