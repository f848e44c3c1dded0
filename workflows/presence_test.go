package workflows

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/details"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

// W11: while no worker takes the first work, the job says so, and continues when one comes.
func TestJob_SaysThatNobodyServesThePool(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	refusals := 0
	w.plan = func(in wire.PlanInput) error {
		if refusals++; refusals <= 5 {
			return temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		}
		require.True(t, w.query().Unserved)
		return nil
	}
	report := w.mustRun()
	require.False(t, report.Unserved)
	require.Equal(t, 6, w.commands["Plan"])
	require.Contains(t, details.Job(job.Report{Pool: "thumbs", Unserved: true}, time.Time{}), "no worker serves pool thumbs")
}

// W11, G8: a job waits for its pool for ever, without a history that grows to its limit.
func TestJob_WaitsForAWorkerForYears(t *testing.T) {
	t.Parallel()
	const years, eventsOfAnOffer, limit = 10, 5, 51_200
	w := setup(t, 100)
	var waited time.Duration
	w.plan = func(wire.PlanInput) error {
		waited += w.offers[len(w.offers)-1]
		if waited >= years*365*24*time.Hour || len(w.offers)*eventsOfAnOffer > limit {
			return nil
		}
		return temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	}
	w.mustRun()
	require.Less(t, len(w.offers)*eventsOfAnOffer, limit*3/4)
	require.Equal(t, []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second}, w.offers[:3], "the report says soon that nobody serves the pool")
}
