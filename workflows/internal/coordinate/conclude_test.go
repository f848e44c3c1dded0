package coordinate

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
)

// However much a stop leaves behind, the report of a job fits into its answers and its result.
func TestD3_LargestReport(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("<", 100)
	one := job.Straggler{Batch: strings.Repeat("<", 60), Worker: text, Slot: 1 << 20, PID: 1 << 30, Since: time.Now(), Noted: time.Now(), Why: "it ignores its context"}
	c := &Coordinator{}
	for range 24 {
		stragglers := make([]job.Straggler, 600)
		for i := range stragglers {
			stragglers[i] = one
		}
		c.State.Report.Outcomes.Add(job.Outcomes{Stragglers: stragglers})
	}
	r := &c.State.Report
	require.Len(t, r.Stragglers, limits.MaxStragglers)
	require.Equal(t, 24*600-limits.MaxStragglers, r.StragglersOmitted)
	r.Error = leftovers(r.Stragglers, r.StragglersOmitted)
	require.Contains(t, r.Error.Message, "and 14390 more")
	for range limits.MaxLaterErrors {
		r.LaterErrors = append(r.LaterErrors, job.Error{Type: strings.Repeat("<", 200), Message: strings.Repeat("<", maxLaterText)})
	}
	r.Reason = strings.Repeat("<", execute.MaxErrorText)
	require.LessOrEqual(t, encodedReport(t, *r), wire.MaxCounted)
}

func encodedReport(t *testing.T, v any) int {
	t.Helper()
	payload, err := converter.GetDefaultDataConverter().ToPayload(v)
	require.NoError(t, err)
	return len(payload.GetData())
}
