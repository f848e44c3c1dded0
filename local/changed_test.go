package local

import (
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestD25_ChangedFields(t *testing.T) {
	t.Parallel()
	before := job.Spec{Name: "n", Pool: "p", Input: []string{"in"}, Output: "out"}.WithDefaults()
	require.Empty(t, changedFields(before, before))
	require.True(t, changedSettings(before.Settings(), before.Settings()).IsZero())
	now := before
	now.Pool, now.Store = "q", "elsewhere/"
	require.Empty(t, changedFields(before, now))
	now.JobRate, now.MaxFailed, now.Window, now.BatchItems = 7000, "5%", 3, 10
	now.Errors, now.Dropped, now.Report, now.Columns, now.OnError = "e", "d", "r", []string{"a"}, job.OnErrorStop
	settings := changedSettings(before.Settings(), now.Settings())
	require.Equal(t, job.Settings{Rate: &now.JobRate, MaxFailed: &now.MaxFailed, Window: &now.Window, BatchItems: &now.BatchItems}, settings)
	require.Equal(t, []string{"columns", "dropped", "errors", "on-error", "report"}, changedFields(before.With(settings), now))
}
