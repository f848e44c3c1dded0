// Package meters measures what a worker does, with OpenTelemetry: the instruments of a worker in one
// meter provider, and a provider whose values a Prometheus server can read.
//
// Names are those that Prometheus shows, without the endings that its exporters add: "_seconds"
// for the unit, "_total" for counters. Every series has the label pool. Nothing here is global.
//
// A worker's tally counts the outcomes of batches, calls and items, job by job. The activities report to it as their
// Observer, and it reports to meters (instruments in an OpenTelemetry provider: that of the endpoint, and the
// program's own) and sinks. Slots and the watchdog are read when somebody asks (decision 009, list).
package meters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stint-run/stint/internal/base/limits"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
)

// scope is the name of the instrumented package.
const scope = "github.com/stint-run/stint/worker"

// Meters are the instruments of one worker in one provider. They are safe for concurrent use.
type Meters struct {
	pool  attribute.KeyValue
	meter metric.Meter
	read  func() State

	calls, items, batches, retries, expiries, isolations metric.Int64Counter
	callTime                                             metric.Float64Histogram
	callItems                                            metric.Int64Histogram

	restarts, watchdogExpiries, reaps, sinkFailures, lost metric.Int64Counter

	inFlight struct{ calls, batches metric.Int64ObservableGauge }
	slots    metric.Int64ObservableGauge
	age      metric.Float64ObservableGauge
	missed   metric.Int64ObservableCounter

	mu            sync.Mutex
	registrations []metric.Registration
	programs      map[string]*program
}

// State is the state of a worker when the meters are read.
type State struct {
	Jobs  []JobState
	Slots map[string]int // by state
	// RoundAge is the time since the watchdog's last round, in seconds; negative: it does not run.
	RoundAge   float64
	EventsLost int64 // of the watchdog
}

// JobState counts what a job has running.
type JobState struct {
	Job            string
	Calls, Batches int64
}

// Bounds of the histograms' buckets: calls take from microseconds to hours, and have from one item
// to 100,000.
var (
	timeBounds = []float64{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3600}
	itemBounds = []float64{1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000}
)

// New makes the instruments of a pool's worker. read returns its state whenever they are read. The
// caller must Close them.
func New(provider metric.MeterProvider, pool string, read func() State) (*Meters, error) {
	m := &Meters{pool: attribute.String("pool", pool), meter: provider.Meter(scope), read: read, programs: map[string]*program{}}
	if err := m.instruments(); err != nil {
		return nil, fmt.Errorf("making the instruments: %w", err)
	}
	if err := m.register(m.observe, m.inFlight.calls, m.inFlight.batches, m.slots, m.age, m.missed); err != nil {
		return nil, err
	}
	m.beginAtZero()
	return m, nil
}

func (m *Meters) instruments() error {
	var errs []error
	counter := func(name, unit, help string) metric.Int64Counter {
		c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(help))
		errs = append(errs, err)
		return c
	}
	gauge := func(name, unit, help string) metric.Int64ObservableGauge {
		g, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help))
		errs = append(errs, err)
		return g
	}
	m.calls = counter("stint_calls", "{call}", "Calls of the handler that have ended, by outcome.")
	m.items = counter("stint_items", "{item}", "Items with an outcome: ok (a result), dropped (no result wanted) or failed.")
	m.batches = counter("stint_batches", "{batch}", "Executions of batches that have ended, by outcome.")
	m.retries = counter("stint_retries", "{call}", "Calls that were retried.")
	m.expiries = counter("stint_expiries", "{timer}", "Calls and items that took longer than one of their timers.")
	m.isolations = counter("stint_isolations", "{call}", "Calls halved to find the item that makes them fail.")
	m.restarts = counter("stint_slot_restarts", "{restart}", "Replacements of slots' processes or left calls, by reason; free ones do not count in the budget.")
	m.watchdogExpiries = counter("stint_watchdog_expiries", "{timer}", "Timers that the watchdog has found expired, by what it does then: reap or report.")
	m.reaps = counter("stint_reaps", "{reap}", "Attempts to end what holds an expired timer: ok, failed (it is retried) or panicked.")
	m.sinkFailures = counter("stint_sink_failures", "{record}", "Snapshots that a sink has not taken.")
	m.lost = counter("stint_measurements_lost", "{measurement}", "Measurements of programs that could not be counted.")
	m.inFlight.calls = gauge("stint_calls_in_flight", "{call}", "Calls of the handler under way.")
	m.inFlight.batches = gauge("stint_batches_in_flight", "{batch}", "Executions of batches under way, those that make their part durable included.")
	m.slots = gauge("stint_slots", "{slot}", "Slots by state: ready, busy, starting or out.")
	var err error
	m.callTime, err = m.meter.Float64Histogram("stint_call_duration", metric.WithUnit("s"),
		metric.WithDescription("How long calls of the handler take."), metric.WithExplicitBucketBoundaries(timeBounds...))
	errs = append(errs, err)
	m.callItems, err = m.meter.Int64Histogram("stint_call_items", metric.WithUnit("{item}"),
		metric.WithDescription("Items with an outcome in calls that were answered."), metric.WithExplicitBucketBoundaries(itemBounds...))
	errs = append(errs, err)
	m.age, err = m.meter.Float64ObservableGauge("stint_watchdog_last_round_age", metric.WithUnit("s"),
		metric.WithDescription("Time since the watchdog's last round."))
	errs = append(errs, err)
	m.missed, err = m.meter.Int64ObservableCounter("stint_watchdog_events_lost", metric.WithUnit("{event}"),
		metric.WithDescription("Events of the watchdog that could not be counted."))
	return errors.Join(append(errs, err)...)
}

// register makes fn be called whenever the instruments are read, until Close. Callbacks must not take
// m.mu: it may be held while a provider waits for them.
func (m *Meters) register(fn metric.Callback, instruments ...metric.Observable) error {
	registration, err := m.meter.RegisterCallback(fn, instruments...)
	if err != nil {
		return fmt.Errorf("registering instruments: %w", err)
	}
	m.registrations = append(m.registrations, registration)
	return nil
}

// Close stops the provider from reading the worker's state. Counts stay with the provider.
func (m *Meters) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.registrations {
		_ = r.Unregister() // a provider that has been shut down has forgotten it
	}
	m.registrations = nil
}

func (m *Meters) observe(_ context.Context, o metric.Observer) error {
	state := m.read()
	for _, j := range state.Jobs {
		labels := m.with(attribute.String("job", j.Job))
		o.ObserveInt64(m.inFlight.calls, j.Calls, labels)
		o.ObserveInt64(m.inFlight.batches, j.Batches, labels)
	}
	for name, n := range state.Slots {
		o.ObserveInt64(m.slots, int64(n), m.with(attribute.String("state", name)))
	}
	if state.RoundAge >= 0 {
		o.ObserveFloat64(m.age, state.RoundAge, m.with())
	}
	o.ObserveInt64(m.missed, state.EventsLost, m.with())
	return nil
}

// with makes labels.
func (m *Meters) with(labels ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(labels, m.pool)...))
}

// Labels of counters.
var (
	actionReap   = attribute.String("action", "reap")
	actionReport = attribute.String("action", "report")
)

func outcome(name string) attribute.KeyValue { return attribute.String("outcome", name) }

// beginAtZero makes the series that every worker has exist from the start, so that rates are right.
func (m *Meters) beginAtZero() {
	ctx := context.Background()
	m.watchdogExpiries.Add(ctx, 0, m.with(actionReap))
	m.watchdogExpiries.Add(ctx, 0, m.with(actionReport))
	for _, o := range []Reap{ReapOK, ReapFailed, ReapPanicked} {
		m.reaps.Add(ctx, 0, m.with(outcome(string(o))))
	}
	m.sinkFailures.Add(ctx, 0, m.with())
	m.lost.Add(ctx, 0, m.with())
}

// Restart counts a slot's replacement.
func (m *Meters) Restart(reason string, free bool) {
	m.restarts.Add(context.Background(), 1, m.with(attribute.String("reason", reason), attribute.Bool("free", free)))
}

// Expiry counts a timer that the watchdog has found expired.
func (m *Meters) Expiry(reportOnly bool) {
	action := actionReap
	if reportOnly {
		action = actionReport
	}
	m.watchdogExpiries.Add(context.Background(), 1, m.with(action))
}

// Reap is the outcome of a reaping.
type Reap string

// The outcomes of reapings.
const (
	ReapOK       Reap = "ok"
	ReapFailed   Reap = "failed"
	ReapPanicked Reap = "panicked"
)

// Reaped counts an attempt to reap.
func (m *Meters) Reaped(r Reap) {
	m.reaps.Add(context.Background(), 1, m.with(outcome(string(r))))
}

// SinkFailed counts a snapshot that a sink has not taken.
func (m *Meters) SinkFailed() { m.sinkFailures.Add(context.Background(), 1, m.with()) }

// ofTemporal has the times that Temporal's SDK measures, in seconds, fall into buckets of such times: the default is made
// for milliseconds.
var ofTemporal = sdkmetric.NewView(
	sdkmetric.Instrument{Name: "temporal_*", Kind: sdkmetric.InstrumentKindHistogram},
	sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: timeBounds}},
)

// maxScrapes is how many readers are served at once.
const maxScrapes = 8

// NewPrometheus returns a new provider, and a handler that serves its values to Prometheus.
func NewPrometheus(log *slog.Logger) (metric.MeterProvider, http.Handler, error) {
	registry := prometheus.NewRegistry()
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("making the Prometheus reader: %w", err)
	}
	provider := sdkmetric.NewMeterProvider(
		sdkmetric.WithReader(reader), sdkmetric.WithResource(resource.Empty()), sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter),
		sdkmetric.WithView(ofTemporal))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes,
	})
	return provider, handler, nil
}

// Job counts what a worker does for one job. It is safe for concurrent use, and fast: its labels
// are made once.
type Job struct {
	m        *Meters
	plain    []metric.AddOption
	recorded []metric.RecordOption
	outcomes map[string][]metric.AddOption
}

// Outcomes of calls, batches and items. A call that failed as a whole has the kind of its failure (see
// [limits.FailureKinds]); any other counts as Other.
const (
	OK      = "ok"
	Failed  = "failed"
	Dropped = "dropped"
	Cut     = "cut" // a call that ended before its last item because its batch ended
	Other   = "other"
)

// Job returns the series of a job. The caller limits the number of jobs.
func (m *Meters) Job(name string) *Job {
	label := attribute.String("job", name)
	own := m.with(label)
	j := &Job{
		m: m, plain: []metric.AddOption{own}, recorded: []metric.RecordOption{own},
		outcomes: map[string][]metric.AddOption{},
	}
	outcomes := []string{OK, Failed, Dropped, Cut, Other}
	for _, kind := range limits.FailureKinds {
		outcomes = append(outcomes, kind.Name)
	}
	for _, o := range outcomes {
		j.outcomes[o] = []metric.AddOption{m.with(label, outcome(o))}
	}
	return j
}

// Begin makes the series that every job has exist from its start.
func (j *Job) Begin() {
	ctx := context.Background()
	for _, o := range []string{OK, Failed, Dropped} {
		j.m.items.Add(ctx, 0, j.outcomes[o]...)
	}
	for _, o := range []string{OK, Failed} {
		j.m.batches.Add(ctx, 0, j.outcomes[o]...)
	}
	j.m.calls.Add(ctx, 0, j.outcomes[OK]...)
	for _, c := range []metric.Int64Counter{j.m.retries, j.m.expiries, j.m.isolations} {
		c.Add(ctx, 0, j.plain...)
	}
}

// Call counts a call with that many outcomes.
func (j *Job) Call(outcome string, items int, took time.Duration) {
	ctx := context.Background()
	labels := j.outcomes[outcome]
	if labels == nil {
		labels = j.outcomes[Other]
	}
	j.m.calls.Add(ctx, 1, labels...)
	j.m.callTime.Record(ctx, took.Seconds(), j.recorded...)
	if items > 0 {
		j.m.callItems.Record(ctx, int64(items), j.recorded...)
	}
}

// Batch counts an execution of a batch.
func (j *Job) Batch(outcome string) { j.m.batches.Add(context.Background(), 1, j.outcomes[outcome]...) }

// Items counts items with an outcome.
func (j *Job) Items(ok, dropped, failed int64) {
	j.add(j.m.items, ok, j.outcomes[OK])
	j.add(j.m.items, dropped, j.outcomes[Dropped])
	j.add(j.m.items, failed, j.outcomes[Failed])
}

// Repairs counts what was done about failures.
func (j *Job) Repairs(retries, expiries, isolations int64) {
	j.add(j.m.retries, retries, j.plain)
	j.add(j.m.expiries, expiries, j.plain)
	j.add(j.m.isolations, isolations, j.plain)
}

func (j *Job) add(c metric.Int64Counter, n int64, labels []metric.AddOption) {
	if n != 0 {
		c.Add(context.Background(), n, labels...)
	}
}
