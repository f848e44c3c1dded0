package text

import (
	"encoding/json"
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

func TestFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 5, ""},
		{"short", 5, "short"},
		{"longer", 5, "lo…"},
		{"äöü", 6, "äöü"},
		{"äöüß", 6, "ä…"},
		{"日本語", 8, "日…"},
		{"a\xff", 10, "a�"},
		{"<", 6, "<"},
		{"<<<", 17, "<<…"},
		{"<<<", 18, "<<<"},
		{`a"b`, 4, `a"b`},
		{"\x00\x00", 11, "\x00…"},
		{"\xff\xff\xff", 6, "�"},
	} {
		require.Equal(t, c.want, Fit(c.text, c.limit), "%q", c.text)
	}
	for _, unit := range []string{"日ö!", "<a", "\x00", "\xff\xfe", "\u2028x", `"\`, "😀"} {
		s := strings.Repeat(unit, 50)
		for limit := 3; limit < 6*len(s); limit++ {
			got := Fit(s, limit)
			require.True(t, utf8.ValidString(got))
			encoded, err := json.Marshal(got)
			require.NoError(t, err)
			require.LessOrEqual(t, len(encoded), limit+2, "%q", got)
			if got != strings.ToValidUTF8(s, "\uFFFD") {
				require.True(t, strings.HasSuffix(got, "…"), "%q", got)
			}
		}
	}
}
