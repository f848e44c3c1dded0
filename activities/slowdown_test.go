package activities

import (
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// A batch keeps its pace when it ends because it has run for its slice: the rest begins at once.
func TestStride_OutlastsTheSlice(t *testing.T) {
	t.Parallel()
	m := mind(t.Context(), minderLimits{slice: time.Nanosecond})
	defer m.stop()
	s := stride{pace: 4000}
	require.Equal(t, 4, s.portion(100))
	<-m.soon
	s.pass(m, 4)
	require.GreaterOrEqual(t, time.Since(s.began), time.Second)
	require.Positive(t, s.waited)
}

// Nothing is waited for where the job or the worker ends, or where the handler has asked for less.
func TestStride_EndsWithTheJob(t *testing.T) {
	t.Parallel()
	ends := make(chan struct{})
	close(ends)
	for name, limits := range map[string]minderLimits{
		"stop": {stopped: ends, grace: time.Hour}, "drain": {draining: ends, drain: time.Hour}, "slow down": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := mind(t.Context(), limits)
			defer m.stop()
			if limits.grace+limits.drain == 0 {
				m.slowDown(time.Second)
			}
			s := stride{pace: job.Rate(1)} // an item in a thousand seconds
			require.Equal(t, 1, s.portion(100))
			s.pass(m, 1)
		})
	}
}
