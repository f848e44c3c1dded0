package meters_test

import (
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/meters"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup returns meters of a pool, and what reads them as Prometheus does.
func setup(t *testing.T, state meters.State) (*meters.Meters, func() string) {
	t.Helper()
	provider, handler, err := meters.NewPrometheus(slog.New(slog.NewTextHandler(t.Output(), nil)))
	require.NoError(t, err)
	m, err := meters.New(provider, "pool", func() meters.State { return state })
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m, func() string {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		require.Equal(t, http.StatusOK, answer.Code, "%s", answer.Body)
		return answer.Body.String()
	}
}

// names are those of the metrics in a text that begin with the prefix.
func names(text, prefix string) []string {
	var found []string
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok && strings.HasPrefix(name, prefix) {
			found = append(found, strings.TrimSpace(name))
		}
	}
	return found
}

func TestMeters_Names(t *testing.T) {
	t.Parallel()
	m, read := setup(t, meters.State{
		Jobs: []meters.JobState{{Job: "nightly", Calls: 2, Batches: 3}}, Slots: map[string]int{"busy": 3}, RoundAge: 0.25, EventsLost: 7,
	})
	j := m.Job("nightly")
	j.Begin()
	j.Call(meters.OK, 7, 20*time.Millisecond)
	j.Call("of a later version", 0, 2*time.Hour)
	m.Restart("crash", true)
	require.Equal(t, []string{
		"stint_batches_in_flight gauge", "stint_batches_total counter", "stint_call_duration_seconds histogram", "stint_call_items histogram",
		"stint_calls_in_flight gauge", "stint_calls_total counter", "stint_expiries_total counter", "stint_isolations_total counter",
		"stint_items_total counter", "stint_measurements_lost_total counter", "stint_reaps_total counter", "stint_retries_total counter",
		"stint_sink_failures_total counter", "stint_slot_restarts_total counter", "stint_slots gauge",
		"stint_watchdog_events_lost_total counter", "stint_watchdog_expiries_total counter", "stint_watchdog_last_round_age_seconds gauge",
	}, names(read(), ""))
	for _, line := range []string{
		`stint_calls_total{job="nightly",outcome="ok",pool="pool"} 1`,
		`stint_calls_total{job="nightly",outcome="other",pool="pool"} 1`,
		`stint_call_duration_seconds_bucket{job="nightly",pool="pool",le="0.01"} 0`,
		`stint_call_duration_seconds_bucket{job="nightly",pool="pool",le="0.03"} 1`,
		`stint_call_items_bucket{job="nightly",pool="pool",le="10"} 1`,
		`stint_call_items_count{job="nightly",pool="pool"} 1`,
		`stint_items_total{job="nightly",outcome="dropped",pool="pool"} 0`,
		`stint_batches_in_flight{job="nightly",pool="pool"} 3`,
		`stint_slots{pool="pool",state="busy"} 3`,
		`stint_slot_restarts_total{free="true",pool="pool",reason="crash"} 1`,
		`stint_watchdog_last_round_age_seconds{pool="pool"} 0.25`,
		`stint_watchdog_events_lost_total{pool="pool"} 7`,
	} {
		require.Contains(t, read(), line+"\n")
	}
}

func TestMeters_NoWatchdog(t *testing.T) {
	t.Parallel()
	_, read := setup(t, meters.State{RoundAge: -1})
	require.NotContains(t, read(), "stint_watchdog_last_round_age_seconds")
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	m, read := setup(t, meters.State{})
	m.Program("tokens", false, 0, 2)
	m.Program("tokens", false, 1, 0.5)
	m.Program("cache.hits_total", false, 0, 1)
	m.Program("cache-hits", false, 0, 1) // the same by our names
	m.Program("queue length", true, 0, 7)
	m.Program("queue length", true, 0, 3)
	m.Program("queue length", true, 2, math.Inf(1))
	text := read()
	require.Equal(t, []string{
		"stint_program_cache_hits_total counter", "stint_program_queue_length gauge", "stint_program_tokens_total counter",
	}, names(text, "stint_program_"))
	require.Contains(t, text, `stint_program_tokens_total{pool="pool"} 2.5`)
	require.Contains(t, text, `stint_program_cache_hits_total{pool="pool"} 2`)
	require.Contains(t, text, `stint_program_queue_length{pool="pool",slot="0"} 3`)
	require.Contains(t, text, `stint_program_queue_length{pool="pool",slot="2"} +Inf`)
	m.Forget(0)
	require.NotContains(t, read(), `stint_program_queue_length{pool="pool",slot="0"}`, "its process has ended")
	require.Contains(t, read(), `stint_measurements_lost_total{pool="pool"} 0`)
}

// Whatever programs measure: it is bounded, and what cannot be counted is.
func TestPrograms_Bounded(t *testing.T) {
	t.Parallel()
	m, read := setup(t, meters.State{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 150 {
				m.Program(fmt.Sprintf("n%d", i%150), i%2 == 0, 0, 1)
				if i%50 == 0 {
					_ = read() // while instruments are made
				}
			}
		})
	}
	all.Wait()
	require.Len(t, names(read(), "stint_program_"), 100)
	require.Contains(t, read(), `stint_measurements_lost_total{pool="pool"} 200`)
	for _, bad := range []struct {
		name  string
		gauge bool
		value float64
	}{{"n0", false, 1}, {"n1", true, 1}, {"n1", false, -1}, {"n1", false, math.NaN()}, {"n1", false, math.Inf(1)}, {"", false, 1}, {"_total", true, 1}} {
		m.Program(bad.name, bad.gauge, 0, bad.value)
	}
	require.Contains(t, read(), `stint_measurements_lost_total{pool="pool"} 207`)
	require.Contains(t, read(), `stint_program_n1_total{pool="pool"} 4`)
}

func TestProgramName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"tokens": "tokens", "a.b-c d": "a_b_c_d", "naïve": "na_ve", "7": "7", "x_total": "x", "bad\xff\"}\n": "bad____",
		strings.Repeat("x", 1000): strings.Repeat("x", 100), "": "",
	} {
		require.Equal(t, want, meters.ProgramName(name))
	}
}

// What a worker was at ends with its meters; what it has counted stays.
func TestMeters_Close(t *testing.T) {
	t.Parallel()
	m, read := setup(t, meters.State{Slots: map[string]int{"ready": 1}})
	m.Program("load", true, 0, 1)
	m.Restart("crash", false)
	m.Close()
	m.Close()
	require.NotContains(t, read(), "stint_slots")
	require.NotContains(t, read(), "stint_program_load{")
	require.Contains(t, read(), "stint_slot_restarts_total")
}
