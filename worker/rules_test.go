package worker

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// W3: tries that a rule gives, to an item or to a call as a whole, go on with the batch's rest, wherever the batch is
// cut.
func TestRules_OverCuts(t *testing.T) {
	t.Parallel()
	for _, k := range atOnce(kinds, 1) {
		if !slices.Contains([]string{"each", "batch", "exec", "command", "serve"}, k.name) {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			tr := k.try(t)
			tr.options.CallItems, tr.slice = 10, time.Millisecond
			tr.limits.ItemAttempts, tr.limits.Retry = 1, []job.Retry{"kind=error,exit attempts=3 backoff=120ms"}
			tr.start()
			third, never := filepath.Join(tr.dir, "third"), filepath.Join(tr.dir, "never")
			o := tr.obey("a", "third "+third, "b")
			require.Empty(t, o.failures)
			require.Equal(t, said(t, "a", "third "+third, "b"), o.output)
			require.Equal(t, 3, count(third))
			require.Equal(t, 3, tr.obey("tally "+never).only(t).Attempts)
			require.Equal(t, 3, count(never))
		})
	}
}
