package execute

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestCutText(t *testing.T) {
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
	} {
		require.Equal(t, c.want, CutText(c.text, c.limit), "%q", c.text)
	}
	text := strings.Repeat("日ö!", 50)
	for limit := 3; limit < len(text); limit++ {
		got := CutText(text, limit)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), limit)
		require.Greater(t, len(got), limit-3)
	}
}
