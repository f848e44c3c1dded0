package starter

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every line of a text is an item of a feed, as of a file; of JSON a blank one is none.
func TestD21_LinesOfAFeed(t *testing.T) {
	t.Parallel()
	for format, want := range map[string][]string{"text": {`"1"`, `""`, `" "`, `"2"`}, "jsonl": {"1", "2"}} {
		lines, err := (&givenItems{file: "-"}).open(&Program{Stdin: io.NopCloser(strings.NewReader("1\n\n \n2"))}, format)
		require.NoError(t, err)
		var got []string
		for {
			item, err := lines.nextItem()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			got = append(got, string(bytes.Clone(item)))
		}
		require.Equal(t, want, got, format)
	}
}
