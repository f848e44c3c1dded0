package starter

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/job"
)

func TestDescribeError(t *testing.T) {
	t.Parallel()
	spec := job.Spec{Name: "nightly", Pool: "p", Input: []string{"in.txt"}, Output: "out.txt", BatchItems: -1, CallTimeout: -2}
	err := fmt.Errorf("job spec: %w", spec.WithDefaults().Validate())
	require.Equal(t, "job spec: batch-items -1: use 0 to 10000000\ncall-timeout -2ns: use 1ms to 87600h0m0s", describeError(err))

	for want, err := range map[string]error{
		"with --fresh":                     &job.ExistsError{Name: "nightly"},
		"'stint list'":                     &job.NotFoundError{Name: "nightly"},
		"'stint watch nightly'":            &job.RunningError{Name: "nightly", State: job.Stopping},
		"'stint resume nightly'":           &job.NotCompletedError{Name: "nightly", State: job.Failed},
		"--on-error drop":                  &job.NothingFailedError{Name: "nightly", Dropped: true},
		"'stint schedules delete nightly'": &job.ScheduleExistsError{Name: "nightly"},
		"'stint schedules' shows":          &job.ScheduleNotFoundError{Name: "nightly"},
		"wait for room with --wait":        &job.FullError{Name: "risk"},
		"'stint start --feed' starts an":   &job.ClosedError{Name: "risk"},
		"'stint resume risk' continues it": &job.StoppedError{Name: "risk", State: job.Stopped},
		"continues it once it has stopped": &job.StoppedError{Name: "risk", State: job.Stopping},
		"takes no items: 'stint start":     &job.NotFeedError{Name: "risk"},
		"until a worker serves its pool":   &job.UnservedError{Name: "risk"},
		"'stint stop nightly-1'":           &job.StillRunningError{Name: "nightly", Run: "nightly-1"},
	} {
		require.NotContains(t, err.Error(), "stint ", "package job speaks to Go programs")
		require.NotContains(t, err.Error(), "--")
		require.Contains(t, describeError(fmt.Errorf("doing x: %w", err)), want)
	}
	require.Equal(t, "any", describeError(errors.New("any")))
}
