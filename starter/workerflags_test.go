package starter

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// W6: one CPU, a list, or a list for each slot.
func TestParseCPUs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][][]int{
		"":              nil,
		"3":             {{3}},
		"0-2,6":         {{0, 1, 2, 6}},
		"2,0,1,1-2":     {{0, 1, 2}},
		"0;1;2-3":       {{0}, {1}, {2, 3}},
		" 0 , 1 ; 4-4 ": {{0, 1}, {4}},
	} {
		got, err := parseCPUs(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"a", "1-", "-1", "3-2", "0,,1", ";", "0;", "0-99999999", "1.5"} {
		_, err := parseCPUs(text)
		require.ErrorContains(t, err, "use numbers and ranges", text)
	}
}
