package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/internal/web/endpoint"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// scraped are the metrics of an endpoint, as a Prometheus server reads them.
type scraped map[string]*dto.MetricFamily

// scrape reads the endpoint's metrics.
func (f *fixture) scrape() scraped {
	f.t.Helper()
	response, err := http.Get("http://" + f.metrics.endpoint.Address() + "/metrics")
	require.NoError(f.t, err)
	defer response.Body.Close()
	require.Equal(f.t, http.StatusOK, response.StatusCode)
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(response.Body)
	require.NoError(f.t, err)
	return families
}

// value is that of the series with these labels, written "name value"; it has no others but the pool.
func (s scraped) value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	require.Contains(t, s, name)
	var seen []string
	for _, m := range s[name].Metric {
		var has []string
		for _, l := range m.Label {
			if l.GetName() == "pool" {
				require.Equal(t, "pool", l.GetValue())
				continue
			}
			has = append(has, l.GetName()+" "+l.GetValue())
		}
		if fmt.Sprint(has) == fmt.Sprint(labels) {
			return valueOf(m)
		}
		seen = append(seen, fmt.Sprint(has))
	}
	require.FailNow(t, "no such series", "%s %v among %v", name, labels, seen)
	return 0
}

// valueOf is a metric's value, or a histogram's sum.
func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	}
	return m.Histogram.GetSampleSum()
}

// sum is that of all series of the name that have the label, written "name value".
func (s scraped) sum(name, label string) float64 {
	total := 0.0
	for _, m := range s[name].GetMetric() {
		for _, l := range m.Label {
			if l.GetName()+" "+l.GetValue() == label {
				total += valueOf(m)
			}
		}
	}
	return total
}

// ask asks for the worker's health.
func (f *fixture) ask() (int, Health) {
	f.t.Helper()
	response, err := http.Get("http://" + f.metrics.endpoint.Address() + "/health")
	require.NoError(f.t, err)
	defer response.Body.Close()
	require.Equal(f.t, "application/json", response.Header.Get("Content-Type"))
	var h Health
	require.NoError(f.t, json.NewDecoder(response.Body).Decode(&h))
	return response.StatusCode, h
}

// M1: an endpoint shows exactly what has happened, to the last item, call and restart.
func TestM1_CountsAreExact(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Metrics, f.options.CallItems, f.limits.Attempts = ":0", 4, 2
	o := f.obey("a", "drop", "error no", "b", "c", "exit 3", "d", "log x", "short", "e", "f", "g", "scope 0s", "h", "i")
	require.Len(t, o.failures, 4)
	f.watchdog.Stop() // has reported all its events
	ends := f.replaced(int(o.totals.Crashes + o.totals.Expiries))
	s := f.scrape()

	require.EqualValues(t, o.totals.OK-o.totals.Dropped, s.value(t, "stint_items_total", "job job", "outcome ok"))
	require.EqualValues(t, 4, s.value(t, "stint_items_total", "job job", "outcome failed"))
	require.EqualValues(t, 1, s.value(t, "stint_items_total", "job job", "outcome dropped"))
	require.EqualValues(t, o.totals.Retries, s.value(t, "stint_retries_total", "job job"))
	require.EqualValues(t, o.totals.Isolations, s.value(t, "stint_isolations_total", "job job"))
	require.EqualValues(t, o.totals.Expiries, s.value(t, "stint_expiries_total", "job job"))
	require.EqualValues(t, o.totals.Batches, s.value(t, "stint_batches_total", "job job", "outcome ok"))
	require.Zero(t, s.value(t, "stint_batches_total", "job job", "outcome failed"))

	require.EqualValues(t, o.totals.Crashes, s.value(t, "stint_calls_total", "job job", "outcome crash"))
	require.EqualValues(t, o.totals.Expiries, s.value(t, "stint_calls_total", "job job", "outcome expired"))
	require.EqualValues(t, o.totals.CallItems, s.value(t, "stint_call_items", "job job"))
	sizes := s["stint_call_items"].Metric[0].Histogram
	require.EqualValues(t, o.totals.Calls, sizes.GetSampleCount())
	times := s["stint_call_duration_seconds"].Metric[0].Histogram
	require.EqualValues(t, s.sum("stint_calls_total", "job job"), times.GetSampleCount())
	require.Positive(t, times.GetSampleSum())

	replaced := map[string]int{}
	for _, e := range ends {
		replaced[fmt.Sprintf("free %v", e.Free)]++
	}
	require.NotZero(t, replaced["free true"])
	for free, n := range replaced {
		require.EqualValues(t, n, s.sum("stint_slot_restarts_total", free))
	}
	require.EqualValues(t, o.totals.Crashes, s.sum("stint_slot_restarts_total", "reason crash"))
	require.EqualValues(t, o.totals.Expiries, s.sum("stint_slot_restarts_total", "reason expired"))
	require.EqualValues(t, o.totals.Expiries, s.value(t, "stint_watchdog_expiries_total", "action reap"))
	require.EqualValues(t, o.totals.Expiries, s.value(t, "stint_reaps_total", "outcome ok"))
	require.Zero(t, s.value(t, "stint_reaps_total", "outcome failed"))

	require.EqualValues(t, 2, s.value(t, "stint_program_tokens_total"))
	require.Zero(t, s.value(t, "stint_calls_in_flight", "job job"))
	require.Zero(t, s.value(t, "stint_batches_in_flight", "job job"))
	require.EqualValues(t, 1, s.value(t, "stint_slots", "state ready"))
	require.Zero(t, s.value(t, "stint_slots", "state out"))
	require.Zero(t, s.value(t, "stint_watchdog_events_lost_total"))
	for name := range s {
		require.Regexp(t, `^stint_[a-z_]+$`, name)
	}
}

// M1: calls of all kinds of outcome.
func TestM1_OutcomesOfCalls(t *testing.T) {
	t.Parallel()
	for item, outcome := range map[string]string{
		"exit 3": "crash", "garbage": "crash", "scope 0s": "expired", "short": "length", "fail it": "error",
	} {
		t.Run(item, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.options.Metrics, f.limits.Attempts = ":0", 1
			f.obey(item)
			s := f.scrape()
			require.EqualValues(t, 1, s.value(t, "stint_calls_total", "job job", "outcome "+outcome))
			require.EqualValues(t, 1, s.sum("stint_calls_total", "job job"))
			if item == "garbage" {
				f.replaced(1)
				require.EqualValues(t, 1, f.scrape().value(t, "stint_slot_restarts_total", "free false", "reason protocol"))
			}
		})
	}
}

// M1: calls and batches under way are in the metrics and in the health.
func TestM1_InFlight(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Metrics, f.options.Slots, f.batch = "0", 2, 1
	begun, gate := make(chan struct{}), make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		f.run(Each(func(_ context.Context, i int) (int, error) {
			begun <- struct{}{}
			<-gate
			return i, nil
		}), "in.jsonl", "1\n2\n")
	})
	<-begun
	<-begun
	s := f.scrape()
	require.EqualValues(t, 2, s.value(t, "stint_calls_in_flight", "job job"))
	require.EqualValues(t, 2, s.value(t, "stint_batches_in_flight", "job job"))
	require.EqualValues(t, 2, s.value(t, "stint_slots", "state busy"))
	require.Zero(t, s.value(t, "stint_items_total", "job job", "outcome ok"))
	_, h := f.ask()
	require.Len(t, h.Slots, 2)
	for i, slot := range h.Slots {
		require.Equal(t, SlotHealth{Slot: i, State: "busy", PID: ownPID, Concurrency: 1, Batches: slot.Batches}, slot)
		require.Len(t, slot.Batches, 1)
		require.Equal(t, "job", slot.Batches[0].Job)
		require.Contains(t, slot.Batches[0].Batch, "item")
		require.WithinRange(t, slot.Batches[0].Since, time.Now().Add(-time.Hour), time.Now())
	}
	close(gate)
}

// M1: a call that is left behind, and a slot that is out. Nothing after the last one is a restart.
func TestM1_RestartsOfSlots(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Metrics, f.options.Restarts, f.options.Slots = ":0", 1, 2
	service, err := f.open(f.program("dies later"))
	require.NoError(t, err)
	require.NoError(t, service.start(t.Context()))
	for slot := range 2 {
		f.metrics.measure("load", true, slot, 5)
	}
	f.running(0).child.Kill()
	f.replaced(2)
	s := f.scrape()
	require.EqualValues(t, 1, s.value(t, "stint_slot_restarts_total", "free false", "reason crash"))
	require.EqualValues(t, 1, s.sum("stint_slot_restarts_total", "free false"), "nothing has come after the second")
	require.EqualValues(t, 5, s.value(t, "stint_program_load", "slot 1"))
	require.Len(t, s["stint_program_load"].Metric, 1, "the other slot's process has ended")
	require.EqualValues(t, 1, s.value(t, "stint_slots", "state out"))
	require.EqualValues(t, 1, s.value(t, "stint_slots", "state ready"))

	p := &callPlace{slot: f.set.slots[1]}
	require.True(t, p.Replace(false))
	require.EqualValues(t, 1, f.scrape().value(t, "stint_slot_restarts_total", "free false", "reason abandoned"))
}

// M1: the metrics go to a program's own OpenTelemetry, too.
func TestM1_MeterProvider(t *testing.T) {
	t.Parallel()
	f := setup(t)
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer func() { require.NoError(t, provider.Shutdown(context.Background())) }()
	f.options.Metrics, f.options.MeterProvider = ":0", provider
	o := f.obey("a", "b", "log x", "drop")
	f.metrics.Close()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	got := map[string]int64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, point := range data.DataPoints {
				got[m.Name] += point.Value
			}
		case metricdata.Histogram[int64]:
			got[m.Name] = data.DataPoints[0].Sum
		case metricdata.Gauge[int64]:
			got[m.Name]++
		}
	}
	require.EqualValues(t, o.totals.Done(), got["stint_items"])
	require.EqualValues(t, o.totals.CallItems, got["stint_call_items"])
	require.NotContains(t, got, "stint_slots", "what the worker was at ends with it; what it has counted does not")
}

// M1: labels are bounded, whatever the number of jobs, and nothing is lost by it.
func TestM1_BoundedJobs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Metrics = ":0"
	_, err := f.open(Each(func(_ context.Context, i int) (int, error) { return i, nil }))
	require.NoError(t, err)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 1000 {
				name := fmt.Sprintf("job-%d", (i*7+g)%150)
				f.metrics.BatchBegan(name)
				f.metrics.CallBegan(name)
				f.metrics.CallEnded(calls.CallStats{Job: name, Items: 1, Took: time.Millisecond})
				f.metrics.Recorded(calls.RecordStats{Job: name, OK: 1})
				f.metrics.BatchEnded(name, nil)
			}
		})
	}
	all.Wait()
	s := f.scrape()
	require.Len(t, s["stint_retries_total"].Metric, maxJobs+1)
	require.EqualValues(t, 4000, s.sum("stint_items_total", "outcome ok"))
	require.Positive(t, s.value(t, "stint_items_total", "job other", "outcome ok"))
	require.EqualValues(t, 4000, s.sum("stint_calls_total", "outcome ok"))
	require.Zero(t, s.value(t, "stint_calls_in_flight", "job other"))
}

// T14: the watchdog's events are counted and logged, and the time of its last round is known.
func TestT14_WatchdogEvents(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Metrics, f.limits.Attempts = ":0", 1
	f.obey("report", "a", "scope 0s")
	require.Eventually(t, func() bool {
		return f.scrape().value(t, "stint_watchdog_expiries_total", "action report") > 0
	}, 10*time.Minute, time.Millisecond)
	_, h := f.ask()
	require.True(t, h.Watchdog.Healthy)
	require.WithinRange(t, h.Watchdog.LastRound, time.Now().Add(-time.Minute), time.Now())
	f.watchdog.Stop()
	s := f.scrape()
	require.EqualValues(t, f.metrics.reaps.Load(), s.value(t, "stint_reaps_total", "outcome ok"))
	require.Positive(t, f.metrics.reaps.Load())
	require.Positive(t, s.value(t, "stint_watchdog_last_round_age_seconds"))
	log := f.log.String()
	require.Contains(t, log, `msg="timers: timer expired"`)
	require.Contains(t, log, `holder="slot 0 of worker-1" scope="only told"`)
	require.NotContains(t, log, `scope="my scope"`, "the slot's own event reports it")

	f.metrics.timerEvent(watchdog.Event{Kind: watchdog.EventReapFailed, Worker: "w", Scope: "s", Overdue: time.Second, Err: errors.New("still there")})
	f.metrics.timerEvent(watchdog.Event{Kind: watchdog.EventReaperPanicked, Worker: "w", Scope: "s", Err: errors.New("alas")})
	s = f.scrape()
	require.EqualValues(t, 1, s.value(t, "stint_reaps_total", "outcome failed"))
	require.EqualValues(t, 1, s.value(t, "stint_reaps_total", "outcome panicked"))
	require.Contains(t, f.log.String(), `level=WARN msg="timers: reaping failed" worker=worker-1 pool=pool holder=w scope=s after=0s overdue=1s error="still there"`)
	require.Contains(t, f.log.String(), `level=ERROR msg="timers: reaper panicked"`)
}

// T14, M5: a health check can rely on the status: 200 only if the worker takes batches and its
// watchdog looks after them.
func TestT14_Health(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Metrics, f.options.Slots, f.options.NoRestarts = "127.0.0.1:0", 2, true
	service, err := f.open(f.program("yes"))
	require.NoError(t, err)
	status, h := f.ask()
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, []string{"it is starting"}, h.Why)
	require.Equal(t, []SlotHealth{{State: "starting", Concurrency: 1, Batches: []BatchHealth{}}, {Slot: 1, State: "starting", Concurrency: 1, Batches: []BatchHealth{}}}, h.Slots)

	require.NoError(t, service.start(t.Context()))
	f.metrics.state.Store(stateServing)
	status, h = f.ask()
	require.Equal(t, http.StatusOK, status)
	require.True(t, h.Healthy)
	require.Empty(t, h.Why)
	require.Equal(t, "worker-1", h.Worker)
	require.Equal(t, "pool", h.Pool)
	require.Equal(t, SlotHealth{Slot: 1, State: "ready", PID: f.running(1).pid(), Concurrency: 1, Batches: []BatchHealth{}}, h.Slots[1])

	f.running(0).child.Kill()
	require.Eventually(t, func() bool { return len(f.happened(slotOut)) == 1 }, 10*time.Minute, time.Millisecond)
	status, h = f.ask()
	require.Equal(t, http.StatusOK, status, "one slot is left")
	require.Equal(t, "out", h.Slots[0].State)
	require.Contains(t, h.Slots[0].Error, "slot 0 is out")
	require.Zero(t, h.Slots[0].PID)
	f.running(1).child.Kill()
	<-f.set.gone
	status, h = f.ask()
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, []string{"no slot is left"}, h.Why)

	later := time.Now().Add(deadAfter + time.Second)
	dead := f.metrics.liveness(later)
	require.False(t, dead.Alive)
	require.Contains(t, dead.Why, "the watchdog has not run for 1m")
	require.True(t, f.metrics.liveness(time.Now()).Alive)

	f.metrics.state.Store(stateDraining)
	f.watchdog.Stop()
	require.Equal(t, liveness{Alive: true, State: stateDraining}, f.metrics.liveness(later))
	status, h = f.ask()
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, []string{"it is draining", "the watchdog is late or does not run", "no slot is left"}, h.Why)
	require.False(t, h.Watchdog.Healthy)
}

func TestEndpoint_Address(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"9090": "127.0.0.1:9090", ":9090": "127.0.0.1:9090", "0": "127.0.0.1:0", ":0": "127.0.0.1:0",
		"0.0.0.0:9090": "0.0.0.0:9090", "[::1]:80": "[::1]:80", "metrics.example:80": "metrics.example:80",
	} {
		got, err := endpoint.Address("metrics", address)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, address := range []string{"nine", "localhost", "127.0.0.1:", "127.0.0.1:http", ":65536", "::1", ":-1"} {
		err := Exec("cat").Check(Options{Metrics: address})
		require.ErrorContains(t, err, fmt.Sprintf("metrics %q", address))
	}
}

func TestEndpoint_AddressIsTaken(t *testing.T) {
	t.Parallel()
	first := setup(t)
	first.options.Metrics = ":0"
	_, err := first.open(Exec("cat"))
	require.NoError(t, err)
	second := setup(t)
	second.options.Metrics = first.metrics.endpoint.Address()
	_, err = second.open(Each(func(_ context.Context, i int) (int, error) { return i, nil }))
	require.ErrorContains(t, err, "metrics endpoint")
	require.ErrorContains(t, err, "listen tcp "+second.options.Metrics)
	require.ErrorContains(t, err, "in use")
}

// It answers only the two paths, and only reads.
func TestEndpoint_Requests(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Metrics = ":0"
	_, err := f.open(Exec("cat"))
	require.NoError(t, err)
	base := "http://" + f.metrics.endpoint.Address()
	for path, want := range map[string]int{
		"GET /": 404, "GET /metrics/x": 404, "POST /metrics": 405, "DELETE /health": 405, "HEAD /metrics": 200, "GET /metrics": 200,
	} {
		method, path, _ := strings.Cut(path, " ")
		request, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, response.Body)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want, response.StatusCode, "%s %s", method, path)
	}
}

func BenchmarkMetrics_Call(b *testing.B) {
	for _, address := range []string{"", ":0"} {
		b.Run("endpoint "+address, func(b *testing.B) {
			o := Options{Metrics: address}.withDefaults()
			watchdog := watchdog.New(watchdog.Options{})
			m := newMetrics("worker-1", "pool", slog.New(slog.DiscardHandler))
			defer m.Close()
			require.NoError(b, m.open(o, newSlotSet("worker-1", o, func(slotEvent) {}), watchdog, false))
			b.ReportAllocs()
			for b.Loop() {
				m.CallBegan("nightly")
				m.CallEnded(calls.CallStats{Job: "nightly", Items: 1000, Took: time.Second})
				m.Recorded(calls.RecordStats{Job: "nightly", OK: 1000})
			}
		})
	}
}
