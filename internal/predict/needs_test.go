package predict

import (
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestNeeds(t *testing.T) {
	t.Parallel()
	sample := Sample{Items: 100, Usage: job.Usage{TokensIn: 1500, TokensOut: 500, TokensCached: 300, Cost: 2e12}}
	n := needsOf(sample, 10_000, job.Spec{})
	require.Equal(t, Needs{Usage: job.Usage{TokensIn: 150_000, TokensOut: 50_000, TokensCached: 30_000, Cost: 200e12}}, n)
	require.Zero(t, needsOf(Sample{Items: 100}, 10_000, job.Spec{MaxCost: 1}))
	require.Zero(t, needsOf(Sample{}, 0, job.Spec{MaxCost: 1}))
	require.EqualValues(t, 2500, needsOf(sample, 10_000, job.Spec{MaxCost: 50e12}).Affordable)
	require.EqualValues(t, 1000, needsOf(sample, 10_000, job.Spec{MaxCost: 50e12, MaxTokens: 20_000}).Affordable)
	require.Zero(t, needsOf(sample, 10_000, job.Spec{MaxCost: 201e12, MaxTokens: 200_000}).Affordable)
}

func TestIsLate(t *testing.T) {
	t.Parallel()
	require.False(t, isLate(job.Spec{}, 1e9))
	require.False(t, isLate(job.Spec{Deadline: "1h"}, 3000))
	require.True(t, isLate(job.Spec{Deadline: "1h"}, 4000))
	require.True(t, isLate(job.Spec{Deadline: "2020-01-01T00:00:00Z"}, 0))
}

func TestLimitedSeconds(t *testing.T) {
	t.Parallel()
	used := job.Usage{TokensIn: 9000, TokensOut: 1000}
	for want, spec := range map[float64]job.Spec{
		0: {}, 100: {JobRate: 10_000}, 50: {RequestRate: 120_000}, 20: {TokenRate: 30_000_000}, 200: {JobRate: 5000, RequestRate: 120_000},
	} {
		require.InDelta(t, want, limitedSeconds(spec, 1000, 100, used), 1e-9)
	}
}
