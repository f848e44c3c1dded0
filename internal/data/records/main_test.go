package records

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// readAll reads every item of r, copied, in chunks of at most maxItems items and maxBytes bytes.
func readAll(t testing.TB, r *Reader, maxItems, maxBytes int) []Item {
	t.Helper()
	var items []Item
	var c Chunk
	for {
		err := r.Read(&c, maxItems, maxBytes)
		if err == io.EOF {
			require.Empty(t, c.Items)
			return items
		}
		require.NoError(t, err)
		require.NotEmpty(t, c.Items)
		require.LessOrEqual(t, len(c.Items), max(maxItems, 1))
		for _, it := range c.Items {
			it.Raw = bytes.Clone(it.Raw)
			items = append(items, it)
		}
	}
}

// cutAll returns every cut of at most maxItems items and about maxBytes bytes.
func cutAll(t testing.TB, c *Cutter, maxItems, maxBytes int64) []Cut {
	t.Helper()
	var cuts []Cut
	for {
		cut, err := c.Next(maxItems, maxBytes)
		if err == io.EOF {
			return cuts
		}
		require.NoError(t, err)
		cuts = append(cuts, cut)
	}
}
