package worker

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A handler can ask for less: no item has failed, nothing counts as tried, the wish is passed on, and
// the items without an outcome come again.
func showsSlowingDown(tr *trial) {
	items := slices.Concat(several(12), []string{"slower " + filepath.Join(tr.dir, tr.kind.name)}, several(12))
	o := tr.obey(items...)
	require.Empty(tr.t, o.failures)
	require.Equal(tr.t, said(tr.t, items...), o.output)
	require.Equal(tr.t, []time.Duration{wish}, o.slowDowns)
	require.Zero(tr.t, o.totals.Retries)
	require.Zero(tr.t, o.totals.Crashes)
}

// What a filter's last line says of the time is taken for it, and nothing else.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": slowDownDefault, "too many requests": slowDownDefault, "retry-after: x": slowDownDefault, "retry-after: -1": slowDownDefault,
		"Retry-After: 30\n": 30 * time.Second, "first\nretry-after:0.5": 500 * time.Millisecond, "retry-after: 5\nlast": slowDownDefault,
	} {
		require.Equal(t, want, retryAfter(text), text)
	}
}
