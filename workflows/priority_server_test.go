package workflows_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// S22: a job of a high priority does not wait for the batches of a large one, which have all slots and fill the pool's
// queue: they return their rest after the calls in hand, without an attempt. Each would run for a minute otherwise.
func TestPriority_SmallBeforeLarge(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const call, slice = 5 * time.Millisecond, time.Minute
	j := s.newJob(t, "large", 200_000, "")
	j.spec.BatchItems, j.spec.Priority = 20_000, 4
	var large atomic.Int64
	all := make(chan struct{})
	j.on(func(ctx context.Context, text string) (string, error) {
		if strings.HasPrefix(text, "large") {
			if large.Add(1) == slots {
				close(all)
			}
			<-time.After(call) // a call takes that long
		}
		return text, nil
	})
	j.start(jobs.StartOptions{})
	<-all
	small := j.spec
	small.Name, small.Priority, small.BatchItems = "small", 1, 5
	small.Output = filepath.Join(filepath.Dir(j.spec.Output), "small.txt")
	var lines strings.Builder
	for i := range 10 {
		fmt.Fprintf(&lines, "small %d\n", i)
	}
	input := filepath.Join(filepath.Dir(j.spec.Output), "small.in.txt")
	require.NoError(t, os.WriteFile(input, []byte(lines.String()), 0o666))
	small.Files = &job.Files{Input: []string{input}}
	run, err := s.client.Start(t.Context(), small, nil)
	require.NoError(t, err)
	report, err := run.Wait(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 10, report.OK)
	done := large.Load()
	t.Logf("%d calls of the large job before the small one was done", done)
	require.Less(t, done, int64(slots*slice/call/2), "the large one has not come to the end of a slice")
	require.NoError(t, j.run.Stop(t.Context(), job.Stop{}))
	stopped, err := j.wait()
	require.NoError(t, err)
	require.Zero(t, stopped.Retries)
	require.Zero(t, stopped.Repeated)
	require.Equal(t, large.Load(), stopped.OK, "it has lost no call")
}
