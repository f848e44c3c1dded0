package starter

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

func TestDescribeError(t *testing.T) {
	t.Parallel()
	spec := job.Spec{Name: "nightly", Pool: "p", Files: &job.Files{Input: []string{"in.txt"}}, Output: "out.txt", BatchItems: -1, CallTimeout: -2}
	err := fmt.Errorf("job spec: %w", spec.WithDefaults().Validate())
	require.Equal(t, "job spec: batch-items -1: use 0 to 10000000\ncall-timeout -2ns: use 1ms to 87600h0m0s", describeError(err))

	spec = job.Spec{Name: "probe", Pool: "p", Loop: &job.Loop{}, BatchTimeout: time.Hour, MaxFailed: "3"}
	require.Equal(t, "batch-timeout is not for loops: call-timeout limits a tick\n"+
		"max-failed is not for loops: on-error says whether it continues after a failed tick", describeError(spec.WithDefaults().Validate()))
	spec = job.Spec{Name: "a", Files: &job.Files{Input: []string{"in.txt"}}, Output: "out.txt", Stages: []job.Stage{{Name: "a", Pool: "a", KeepErrors: true}, {Name: "b", Pool: "b", Switch: ".kind"}}}
	require.Equal(t, "stage 1: fail-fast is for ensembles: leave it out\nstage 2: pool excludes switch: use one of them", describeError(spec.WithDefaults().Validate()))
	err = worker.Exec("cat").Check(worker.Options{Slots: 3, CPUs: [][]int{{0}, {0}}, KillAfter: time.Minute})
	require.Equal(t, "worker options: cpus has 2 lists for 3 slots: give one for all, or one for each slot\nkill-after 1m0s: use more than 0s, up to 15s", describeError(err))

	for want, err := range map[string]error{
		"with --fresh":                     &jobs.ExistsError{Name: "nightly"},
		"'stint list'":                     &jobs.NotFoundError{Name: "nightly"},
		"'stint watch nightly'":            &jobs.RunningError{Name: "nightly", State: job.Stopping},
		"'stint resume nightly'":           &jobs.NotCompletedError{Name: "nightly", State: job.Failed},
		"--on-error drop":                  &jobs.NothingFailedError{Name: "nightly", Dropped: true},
		"'stint schedule delete nightly'":  &jobs.ScheduleExistsError{Name: "nightly"},
		"'stint schedule list' shows":      &jobs.ScheduleNotFoundError{Name: "nightly"},
		"wait for room with --wait":        &jobs.FeedError{Code: jobs.CodeFull, Feed: "risk"},
		"'stint start --feed' starts an":   &jobs.FeedError{Code: jobs.CodeClosed, Feed: "risk"},
		"'stint resume risk' continues it": &jobs.FeedError{Code: jobs.CodeStopped, Feed: "risk", State: job.Stopped},
		"continues it once it has stopped": &jobs.FeedError{Code: jobs.CodeStopped, Feed: "risk", State: job.Stopping},
		"takes no items: 'stint start":     &jobs.FeedError{Code: jobs.CodeNotFeed, Feed: "risk"},
		"until a worker serves its pool":   &jobs.FeedError{Code: jobs.CodeUnserved, Feed: "risk"},
		"'stint stop nightly-1'":           &jobs.StillRunningError{Name: "nightly", Run: "nightly-1"},
	} {
		require.NotContains(t, err.Error(), "stint ", "package job speaks to Go programs")
		require.NotContains(t, err.Error(), "--")
		require.Contains(t, describeError(fmt.Errorf("doing x: %w", err)), want)
	}
	require.Equal(t, "any", describeError(errors.New("any")))
}

// R23: an error that was made for workflows says its message, once.
func TestR23_ErrorsOfActivities(t *testing.T) {
	t.Parallel()
	err := ledger.Permanent(job.ErrorCorrupt, fmt.Errorf("reading /x: it is damaged"))
	require.Equal(t, "printing the results: reading /x: it is damaged", describeError(fmt.Errorf("printing the results: %w", err)))
	err = temporal.NewNonRetryableApplicationError(err.Error(), job.ErrorCorrupt, err) // as a workflow has it
	require.Contains(t, err.Error(), "retryable")
	require.Equal(t, "printing the results: reading /x: it is damaged", describeError(fmt.Errorf("printing the results: %w", err)))
}
