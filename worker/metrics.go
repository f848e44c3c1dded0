package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/meters"
	"github.com/stint-run/stint/timers"
	"go.opentelemetry.io/otel/metric"
)

// metrics is all that a worker tells of itself in numbers: it takes in what happens, and gives it
// to meters, to sinks and to whoever asks for the worker's health. It is safe for concurrent use.
type metrics struct {
	tally
	worker, pool string
	log          *slog.Logger
	began        time.Time
	state        atomic.Value // string: see Health.State

	roster   *roster
	watchdog *timers.Watchdog
	programs bool // slots need processes of their own

	restarts, reaps, failedReaps atomic.Int64
	out                          sync.Map // numbers of slots that are not replaced any more

	sinks    *sinks
	endpoint *endpoint // nil: none
	started  bool
}

func newMetrics(worker, pool string, log *slog.Logger) *metrics {
	m := &metrics{worker: worker, pool: pool, log: log.With("worker", worker, "pool", pool), began: time.Now()}
	m.state.Store(stateStarting)
	return m
}

// open makes the meters, takes the endpoint's address and readies the sinks. Nothing must have been
// counted before. Whether it succeeds or not, the metrics must be closed.
func (m *metrics) open(o Options, r *roster, w *timers.Watchdog, programs bool) error {
	m.roster, m.watchdog, m.programs = r, w, programs
	m.sinks = newSinks(o.Sinks, o.SinkInterval, m.log, m.snapshot, m.sinkFailed)
	providers := []metric.MeterProvider{}
	if o.MeterProvider != nil {
		providers = append(providers, o.MeterProvider)
	}
	if o.Metrics != "" {
		provider, handler, err := meters.NewPrometheus(m.log)
		if err != nil {
			return err
		}
		if m.endpoint, err = listen(o.Metrics, m.routes(handler), m.log); err != nil {
			return err
		}
		providers = append(providers, provider)
	}
	for _, p := range providers {
		made, err := meters.New(p, m.pool, m.reading)
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		m.meters = append(m.meters, made)
	}
	return nil
}

func (m *metrics) routes(handler http.Handler) http.Handler {
	return routes(handler, func() Health { return m.health(time.Now()) })
}

// checkMetrics says what is wrong with the options that are about metrics.
func (o Options) checkMetrics() error {
	var errs []error
	if o.Metrics != "" {
		_, err := endpointAddress(o.Metrics)
		errs = append(errs, err)
	}
	if o.SinkInterval < 0 {
		errs = append(errs, fmt.Errorf("sink interval %v: use a duration above 0", o.SinkInterval))
	}
	if slices.Contains(o.Sinks, nil) {
		errs = append(errs, errors.New("sinks: one is nil"))
	}
	return errors.Join(errs...)
}

// start begins to answer and to feed.
func (m *metrics) start() {
	m.started = true
	m.sinks.start()
	if m.endpoint == nil {
		return
	}
	m.log.Info("metrics", "url", "http://"+m.endpoint.address()+"/metrics")
	m.endpoint.serve(func(err error) { m.log.Error("the metrics endpoint has ended", "error", err) })
}

// close tells the sinks what has been counted to the end, and ends all that metrics have begun.
// Nothing must be counted any more.
func (m *metrics) close() {
	if m.started {
		m.sinks.close()
	}
	if m.endpoint != nil {
		m.endpoint.close()
	}
	for _, made := range m.meters {
		made.Close()
	}
}

// reading is what meters show of the worker's state.
func (m *metrics) reading() meters.State {
	s := meters.State{Slots: map[string]int{}, RoundAge: -1, EventsLost: m.watchdog.Lost()}
	for _, name := range slotStates {
		s.Slots[name] = 0
	}
	now := time.Now()
	for _, slot := range m.roster.slots {
		s.Slots[slot.health(now, m.programs).State]++
	}
	if last := m.watchdog.LastRound(); !last.IsZero() {
		s.RoundAge = now.Sub(last).Seconds()
	}
	m.each(func(j *jobTally) {
		s.Jobs = append(s.Jobs, meters.JobState{Job: j.name, Calls: j.calls.Load(), Batches: j.batches.Load()})
	})
	return s
}

// snapshot is what sinks get, with the windows since the last one.
func (m *metrics) snapshot() Snapshot {
	return Snapshot{
		Worker: m.worker, Pool: m.pool, Began: m.began, Time: time.Now(), Jobs: m.cut(),
		Restarts: m.restarts.Load(), Reaps: m.reaps.Load(), FailedReaps: m.failedReaps.Load(),
	}
}

func (m *metrics) sinkFailed() {
	for _, made := range m.meters {
		made.SinkFailed()
	}
}

// slotEvent counts what has happened to a slot.
func (m *metrics) slotEvent(e SlotEvent) {
	switch e.Kind {
	case SlotOut:
		m.out.Store(e.Slot, nil)
	case SlotReplaced, CallLeft:
		if errors.Is(e.Err, errClosing) {
			return
		}
		for _, made := range m.meters {
			made.Forget(e.Slot)
		}
		if _, out := m.out.Load(e.Slot); out {
			return // nothing comes in its place
		}
		m.restarts.Add(1)
		for _, made := range m.meters {
			made.Restart(reasonOf(e), e.Free)
		}
	}
}

// reasonOf names in a word why a slot was replaced.
func reasonOf(e SlotEvent) string {
	var fault *activities.Fault
	switch {
	case e.Kind == CallLeft:
		return "abandoned"
	case !errors.As(e.Err, &fault):
		return "start" // it could not be started, or did not get ready
	case fault.Err.Type == "Protocol":
		return "protocol"
	}
	return fault.Kind
}

// timerEvent counts and logs what the watchdog has to tell (T14). What a slot's own events tell is
// not logged twice.
func (m *metrics) timerEvent(e timers.Event) {
	level := slog.LevelDebug
	reap := meters.Reap("")
	switch e.Kind {
	case timers.EventExpired:
		for _, made := range m.meters {
			made.Expiry(e.ReportOnly)
		}
		if e.ReportOnly {
			level = slog.LevelWarn // nothing else tells of it
		}
	case timers.EventReaped:
		m.reaps.Add(1)
		reap = meters.ReapOK
	case timers.EventReapFailed:
		m.failedReaps.Add(1)
		reap, level = meters.ReapFailed, slog.LevelWarn
	case timers.EventReaperPanicked:
		reap, level = meters.ReapPanicked, slog.LevelError
	}
	if reap != "" {
		for _, made := range m.meters {
			made.Reaped(reap)
		}
	}
	logTimerEvent(m.log, level, e)
}

// measure takes in a program's own measurement.
func (m *metrics) measure(v Measurement) {
	for _, made := range m.meters {
		made.Program(v.Name, v.Gauge, v.Slot, v.Value)
	}
}
