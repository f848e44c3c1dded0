package jobmetrics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/job"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// put shows a value.
type put func(value float64, labels ...attribute.KeyValue)

// gauge is what is shown of all jobs, or of each, under a name, without the unit that Prometheus adds.
type gauge struct {
	name, unit, help string
	all              func(e *Exporter, put put)
	each             func(s shown, now time.Time, put put)
}

// gauges are shown from what was found last.
var gauges = []gauge{
	{name: "stint_jobs", help: "Jobs that run, or have ended within ten minutes, by state.", all: func(e *Exporter, put put) { byGroup(e.count, put) }},
	{name: "stint_jobs_last_round_age", unit: "s", help: "Time since Temporal has listed the jobs.", all: func(e *Exporter, put put) {
		if !e.last.IsZero() {
			put(time.Since(e.last).Seconds())
		}
	}},
	{name: "stint_job_state", help: "1 for the state that the job is in.", each: func(s shown, _ time.Time, put put) {
		put(1, attribute.String("state", s.state))
	}},
	{name: "stint_job_trouble", help: "1 for each kind of trouble that the job has, 0 for the others.", each: func(s shown, _ time.Time, put put) {
		for kind, has := range s.trouble {
			put(map[bool]float64{true: 1}[has], attribute.String("kind", kind))
		}
	}},
	{name: "stint_job_items", help: "Items by state: ok (a result), dropped, failed, left (found and not done).", each: func(s shown, _ time.Time, put put) {
		for state, n := range itemsOf(s.report) {
			put(float64(n), attribute.String("state", state))
		}
	}},
	{name: "stint_job_started", unit: "s", help: "When the run was started, in seconds since 1970.", each: func(s shown, _ time.Time, put put) {
		put(float64(s.report.Started.UnixMilli()) / 1000)
	}},
	{name: "stint_job_batches_in_flight", help: "Batches dispatched and not finished.", each: running(func(s shown, _ time.Time, put put) {
		put(float64(s.report.InFlight))
	})},
	{name: "stint_job_items_per_second", help: "Items done a second, since the job was asked before.", each: running(func(s shown, _ time.Time, put put) {
		put(s.speed.Items)
	})},
	{name: "stint_job_time_left", unit: "s", help: "Estimated time to the job's end at its present speed; missing if it is not known.", each: running(func(s shown, _ time.Time, put put) {
		if left, ok := s.report.TimeLeft(s.speed); ok {
			put(left.Seconds())
		}
	})},
	{name: "stint_job_answer_age", unit: "s", help: "Time since the job has answered.", each: running(func(s shown, now time.Time, put put) {
		put(now.Sub(s.at).Seconds())
	})},
}

// running leaves out jobs that have ended.
func running(each func(shown, time.Time, put)) func(shown, time.Time, put) {
	return func(s shown, now time.Time, put put) {
		if !s.report.State.Final() {
			each(s, now, put)
		}
	}
}

// itemsOf returns the items of a job by state. Each is in one of them, so that sums are right.
func itemsOf(r job.Report) map[string]int64 {
	return map[string]int64{
		"ok": r.OK - r.Dropped, "dropped": r.Dropped, "failed": r.Failed, "left": max(0, r.Planned-r.Discarded-r.Done()),
	}
}

func byGroup(counts map[group]int64, put put) {
	for g, n := range counts {
		put(float64(n), attribute.String("pool", g.pool), attribute.String("state", g.state))
	}
}

// instruments makes the gauges, and the counter of jobs that have ended.
func (e *Exporter) instruments(provider metric.MeterProvider) error {
	meter := provider.Meter("stint/jobs")
	var errs []error
	var all []metric.Observable
	var made []metric.Float64Observable
	for _, g := range gauges {
		instrument, err := meter.Float64ObservableGauge(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.help))
		errs, all, made = append(errs, err), append(all, instrument), append(made, instrument)
	}
	ended, err := meter.Float64ObservableCounter("stint_jobs_ended", metric.WithDescription("Jobs that have ended since this process began, by state."))
	errs, all = append(errs, err), append(all, ended)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("making the instruments: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		byGroup(e.ended, putInto(o, ended))
		for i, g := range gauges {
			e.observe(g, putInto(o, made[i]))
		}
		return nil
	}, all...)
	return err
}

func putInto(o metric.Observer, to metric.Float64Observable) put {
	return func(value float64, labels ...attribute.KeyValue) {
		o.ObserveFloat64(to, value, metric.WithAttributes(labels...))
	}
}

// observe shows what a gauge has. The lock is held.
func (e *Exporter) observe(g gauge, put put) {
	if g.all != nil {
		g.all(e, put)
		return
	}
	now := time.Now()
	for name, s := range e.shown {
		if !s.at.IsZero() {
			g.each(s, now, func(value float64, labels ...attribute.KeyValue) {
				put(value, append(labels, attribute.String("job", name), attribute.String("pool", s.pool))...)
			})
		}
	}
}
