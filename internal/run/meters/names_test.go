package meters

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/metricnames"
	"github.com/stretchr/testify/require"
)

// M6: The file of names, against which dashboards and rules are checked, has all metrics of a worker.
func TestMeters_Listed(t *testing.T) {
	t.Parallel()
	provider, handler, err := NewPrometheus(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	m, err := New(provider, "pool", func() State {
		return State{Jobs: []JobState{{Job: "job"}}, Slots: map[string]int{"ready": 1}}
	})
	require.NoError(t, err)
	defer m.Close()
	j := m.Job("job")
	j.Begin()
	j.Call(OK, 1, time.Second)
	j.Batch(OK)
	j.Items(1, 1, 1)
	j.Repairs(1, 1, 1)
	m.Restart("crash", false)
	m.Expiry(true)
	metricnames.Require(t, handler, func(name string) bool {
		return strings.HasPrefix(name, "stint_") && !strings.HasPrefix(name, "stint_gateway_") && !strings.HasPrefix(name, "stint_job")
	})
}
