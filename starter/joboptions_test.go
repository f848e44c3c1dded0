package starter

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// Times that are 0 are no defaults: a call has no limit, and running calls end at once.
func TestJobOptions_NoTimes(t *testing.T) {
	t.Parallel()
	spec := func(args ...string) job.Spec {
		var o jobOptions
		cmd := &cobra.Command{}
		o.addFlags(cmd.Flags(), &Program{})
		require.NoError(t, cmd.ParseFlags(args))
		s, err := o.complete(cmd, []string{"in.txt"}, t.TempDir())
		require.NoError(t, err)
		return s.WithDefaults()
	}
	s := spec()
	require.Equal(t, limits.DefaultCallTimeout, s.CallTimeout)
	require.Equal(t, limits.DefaultGrace, s.Grace)
	s = spec("--call-timeout", "0", "--grace", "0")
	require.Equal(t, job.NoLimit, s.CallTimeout)
	require.Equal(t, time.Nanosecond, s.Grace)
}
