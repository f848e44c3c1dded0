package local

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
)

func TestD25_ChangedFields(t *testing.T) {
	t.Parallel()
	before := job.Spec{Name: "n", Pool: "p", Files: &job.Files{Input: []string{"in"}}, Output: "out"}.WithDefaults()
	require.Empty(t, changedFields(before, before))
	require.True(t, changedSettings(before.Settings(), before.Settings()).IsZero())
	now := before
	now.Pool, now.Store = "q", "elsewhere/"
	require.Empty(t, changedFields(before, now))
	now.JobRate, now.MaxFailed, now.Window, now.BatchItems, now.Priority = 7000, "5%", 3, 10, 1
	now.RequestRate, now.TokenRate, now.MaxCost, now.MaxTokens, now.Deadline = 1, 2, 3, 4, "1h"
	now.Errors, now.Dropped, now.Report, now.Columns, now.OnError = "e", "d", "r", []string{"a"}, job.OnErrorStop
	settings := changedSettings(before.Settings(), now.Settings())
	require.Equal(t, job.Settings{
		Rate: &now.JobRate, MaxFailed: &now.MaxFailed, Window: &now.Window, BatchItems: &now.BatchItems, Priority: &now.Priority,
		RequestRate: &now.RequestRate, TokenRate: &now.TokenRate, MaxCost: &now.MaxCost, MaxTokens: &now.MaxTokens, Deadline: &now.Deadline,
	}, settings)
	// A new setting must come into this test.
	for i := range reflect.TypeFor[job.Settings]().NumField() {
		if name := reflect.TypeFor[job.Settings]().Field(i).Name; name != "Windows" {
			require.False(t, reflect.ValueOf(settings).Field(i).IsNil(), name)
		}
	}
	require.Equal(t, []string{"columns", "dropped", "errors", "on-error", "report"}, changedFields(before.With(settings), now))
}

// The settings of now are compared with those in force, which need not be those of the start.
func TestD25_SettingsInForce(t *testing.T) {
	t.Parallel()
	began := job.Spec{Name: "n", Pool: "p", Files: &job.Files{Input: []string{"in"}}, Output: "out", Window: 2}.WithDefaults()
	since := began
	since.Window = 7 // by somebody, since
	set := func(inForce, now job.Spec, err error) (job.Spec, []job.Settings, error) {
		var got []job.Settings
		spec, err := setTo(inForce, now, func(s job.Settings) error {
			got = append(got, s)
			return err
		})
		return spec, got, err
	}
	inForce, got, err := set(began.With(since.Settings()), began, nil)
	require.NoError(t, err)
	require.Equal(t, []job.Settings{{Window: &began.Window}}, got, "as it was started is not as it is")
	require.Empty(t, changedFields(inForce, began))

	_, got, err = set(began.With(since.Settings()), since, nil)
	require.NoError(t, err)
	require.Empty(t, got)

	inForce, _, err = set(since, began, &jobs.EndedError{Name: "n"})
	require.NoError(t, err, "it has just ended")
	require.Equal(t, []string{"window"}, changedFields(inForce, began))
	_, _, err = set(since, began, errors.New("no network"))
	require.Error(t, err)
}
