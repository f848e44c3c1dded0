package worker

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A handler can request a slow-down: no item has failed, nothing counts as tried, and the items without an
// outcome are repeated. A single request says nothing about the rate: it is not passed on.
func showsSlowingDown(tr *trial) {
	items := slices.Concat(several(12), []string{"slower " + filepath.Join(tr.dir, tr.kind.name)}, several(12))
	o := tr.obey(items...)
	require.Empty(tr.t, o.failures)
	require.Equal(tr.t, said(tr.t, items...), o.output)
	require.Empty(tr.t, o.slowDowns)
	require.Zero(tr.t, o.totals.Retries)
	require.Zero(tr.t, o.totals.Crashes)
}

// D13: an item can be called again later, whatever becomes of the others of its call. That is no attempt, and
// nobody slows down.
func showsRetryAfter(tr *trial) {
	items := slices.Concat(several(12), []string{"later " + filepath.Join(tr.dir, tr.kind.name+" later")}, several(12))
	before := time.Now()
	o := tr.obey(items...)
	require.GreaterOrEqual(tr.t, time.Since(before), pause)
	require.Empty(tr.t, o.failures)
	require.Equal(tr.t, said(tr.t, items...), o.output)
	require.Empty(tr.t, o.slowDowns)
	require.Zero(tr.t, o.totals.Retries)
	require.Zero(tr.t, o.totals.Repeated)
	require.Equal(tr.t, 2, count(filepath.Join(tr.dir, tr.kind.name+" later")))
}

// Only a filter's last line sets the duration.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": slowDownDefault, "too many requests": slowDownDefault, "retry-after: x": slowDownDefault, "retry-after: -1": slowDownDefault,
		"Retry-After: 30\n": 30 * time.Second, "first\nretry-after:0.5": 500 * time.Millisecond, "retry-after: 5\nlast": slowDownDefault,
	} {
		require.Equal(t, want, retryAfter(text), text)
	}
}
