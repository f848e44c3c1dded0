package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
)

func TestRun_Follow(t *testing.T) {
	t.Parallel()
	o := openOffice()
	defer o.close()
	seen := make(chan struct{})
	var calls atomic.Int64
	o.serve("pool", func(ctx context.Context, item string) (string, error) {
		if calls.Add(1) == 2 { // whichever item that is
			select {
			case <-seen:
			case <-ctx.Done():
			}
		}
		return item, ctx.Err()
	})
	run, err := o.jobs.Start(t.Context(), job.Spec{
		Name: "followed", Pool: "pool", Files: &job.Files{Input: o.file("in.txt", "a", "b")}, Output: o.output("out.txt"), BatchItems: 1,
	}, nil)
	require.NoError(t, err)
	var once sync.Once
	var last job.Report
	report, err := run.Follow(t.Context(), time.Millisecond, func(r job.Report) {
		last = r
		if r.OK == 1 {
			once.Do(func() { close(seen) })
		}
	})
	require.NoError(t, err)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 2, report.OK)
	require.False(t, last.State.Final(), "the last report is Follow's result")
}

func TestUnanswered(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		fmt.Errorf("asking: %w", context.DeadlineExceeded):                      true,
		fmt.Errorf("asking: %w", serviceerror.NewDeadlineExceeded("no worker")): true,
		fmt.Errorf("asking: %w", context.Canceled):                              false,
		error(&jobs.NotFoundError{Name: "nightly"}):                             false,
		errors.New("anything else"):                                             false,
	} {
		require.Equal(t, want, jobs.Unanswered(err), "%v", err)
	}
	require.False(t, jobs.Unanswered(nil))
}
