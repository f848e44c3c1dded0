package jobs

import (
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestPermanentErrors(t *testing.T) {
	t.Parallel()
	kinds := job.PermanentErrors()
	require.ElementsMatch(t, []string{
		job.ErrorInvalid, job.ErrorInput, job.ErrorChanged, job.ErrorOutput, job.ErrorFenced, job.ErrorBooks, job.ErrorCorrupt, job.ErrorOrphaned, job.ErrorNoHook,
	}, kinds)
	kinds[0] = "changed"
	require.Equal(t, job.ErrorInvalid, job.PermanentErrors()[0], "callers get their own list")
}
