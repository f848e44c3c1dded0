// Package jobmetrics shows the numbers of jobs to Prometheus, from one place: workers count what they do themselves, which
// is more than a job accepts, and no worker knows a whole job.
//
// Everything is asked for at intervals, and a reader gets what was found last: how often Prometheus reads costs the
// server nothing. Jobs that run are asked, in which a query is billed by some servers; of the others the list says enough.
package jobmetrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/meters"
	"github.com/stint-run/stint/internal/web/endpoint"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"golang.org/x/sync/errgroup"
)

// Jobs is what the exporter asks: a *jobs.Client, by [Of].
type Jobs interface {
	// Since returns the jobs that run, and those that have ended since then, at most limit.
	Since(ctx context.Context, limit int, ended time.Time) ([]jobs.Listed, error)
	// Report asks a job. Beside an error there may be the last numbers that are known.
	Report(ctx context.Context, name string) (job.Report, error)
}

// Of asks with a client.
func Of(client *jobs.Client) Jobs { return clientJobs{client} }

type clientJobs struct{ client *jobs.Client }

func (c clientJobs) Since(ctx context.Context, limit int, ended time.Time) ([]jobs.Listed, error) {
	return c.client.List(ctx, limit, &jobs.ListFilter{EndedSince: ended})
}

func (c clientJobs) Report(ctx context.Context, name string) (job.Report, error) {
	return c.client.Get(name).Report(ctx)
}

// Options configure an exporter.
type Options struct {
	// Every is the time between two rounds of questions.
	Every time.Duration
	// Most is how many jobs are asked, the latest ones; others are counted only, by their state.
	Most int
	Log  *slog.Logger
}

const (
	// listed is the most jobs of a round.
	listed = 10_000
	// shownFor is how long a job is shown after its end: Prometheus has to see how it has ended.
	shownFor = 10 * time.Minute
	// askLimit is how long a job may take to answer, and askedAtOnce how many are asked at once.
	askLimit    = 5 * time.Second
	askedAtOnce = 8
)

// Exporter asks for jobs. It is safe for concurrent use.
type Exporter struct {
	options Options
	jobs    Jobs
	handler http.Handler

	mu    sync.Mutex
	last  time.Time // of the last good round
	why   error     // of the last round
	shown map[string]shown
	count map[group]int64 // of jobs, by pool and state
	ended map[group]int64 // of runs that have ended since the exporter began
	// counted are the runs of the last list whose ends are in ended.
	counted map[string]bool
	began   time.Time
}

// shown is a job, as it is shown.
type shown struct {
	run, pool, state string
	report           job.Report
	at               time.Time // of the report; zero: there is none
	speed            job.Speed
	trouble          map[string]bool
}

// group is a pool and a state.
type group struct{ pool, state string }

// New returns an exporter.
func New(all Jobs, o Options) (*Exporter, error) {
	e := &Exporter{options: o, jobs: all, shown: map[string]shown{}, count: map[group]int64{}, ended: map[group]int64{}, began: time.Now()}
	provider, handler, err := meters.NewPrometheus(o.Log)
	if err != nil {
		return nil, err
	}
	e.handler = handler
	return e, e.instruments(provider)
}

// Health is the answer to GET /health and /readyz.
type Health struct {
	Healthy bool      `json:"healthy"` // the last round of questions was answered, and is not old
	Why     string    `json:"why,omitempty"`
	Last    time.Time `json:"last_round,omitzero"`
	Jobs    int       `json:"jobs"` // that are shown
}

func (e *Exporter) health() Health {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := Health{Last: e.last, Jobs: len(e.shown)}
	switch {
	case e.why != nil:
		h.Why = e.why.Error()
	case e.last.IsZero():
		h.Why = "nothing was asked yet"
	case time.Since(e.last) > 3*e.options.Every+askLimit:
		h.Why = fmt.Sprintf("the last round was %v ago", time.Since(e.last).Round(time.Second))
	default:
		h.Healthy = true
	}
	return h
}

// Routes answers what an endpoint is asked.
func (e *Exporter) Routes() http.Handler {
	ready := func() (any, bool) { h := e.health(); return h, h.Healthy }
	return endpoint.Routes(e.handler, ready, func() (any, bool) { return e.health(), true })
}

// Run asks until ctx ends.
func (e *Exporter) Run(ctx context.Context) {
	for {
		if err := e.round(ctx); err != nil && ctx.Err() == nil {
			e.options.Log.Warn("jobs cannot be asked for", "error", err)
		}
		if !backoff.Wait(e.options.Every, ctx.Done()) {
			return
		}
	}
}

// round asks once.
func (e *Exporter) round(ctx context.Context) error {
	now := time.Now()
	list, err := e.jobs.Since(ctx, listed, now.Add(-shownFor))
	if err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.why = err
		return err
	}
	latest := latestRuns(list)
	reports := e.ask(ctx, latest)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last, e.why = time.Now(), nil
	e.countEnds(list)
	e.take(latest, reports)
	return nil
}

// latestRuns returns of each name the latest run, in the order of the list.
func latestRuns(list []jobs.Listed) []jobs.Listed {
	at := map[string]int{}
	var latest []jobs.Listed
	for _, l := range list {
		i, known := at[l.Name]
		switch {
		case !known:
			at[l.Name] = len(latest)
			latest = append(latest, l)
		case l.Started.After(latest[i].Started):
			latest[i] = l
		}
	}
	return latest
}

// answer is what a job has answered.
type answer struct {
	report job.Report
	at     time.Time
	silent bool
}

// ask asks the jobs, several at once: those that run, and those that have ended since they were asked last.
func (e *Exporter) ask(ctx context.Context, list []jobs.Listed) map[string]answer {
	var mu sync.Mutex
	answers := map[string]answer{}
	var asking errgroup.Group
	asking.SetLimit(askedAtOnce)
	for i, l := range list {
		if i >= e.options.Most || !e.wants(l) {
			continue
		}
		asking.Go(func() error {
			return trap.Run("asking a job", func() {
				if a, ok := e.askOne(ctx, l.Name); ok {
					mu.Lock()
					defer mu.Unlock()
					answers[l.Name] = a
				}
			})
		})
	}
	if err := asking.Wait(); err != nil {
		e.options.Log.Error("a job could not be asked", "error", err)
	}
	return answers
}

// askOne asks a job. It is not ok if there is none.
func (e *Exporter) askOne(ctx context.Context, name string) (a answer, ok bool) {
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	r, err := e.jobs.Report(limited, name)
	gone := errors.As(err, new(*jobs.NotFoundError))
	return answer{report: r, at: cmp.Or(r.AsOf, time.Now()), silent: err != nil || len(r.Silent) > 0}, !gone
}

// wants reports whether a job is to be asked: its last report is not final, or is that of another run.
func (e *Exporter) wants(l jobs.Listed) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, known := e.shown[l.Name]
	return l.Ended == nil || !known || s.run != l.Run || !s.report.State.Final()
}

// countEnds counts the runs of a list that have ended since the last one: also those that were resumed at once. The lock is
// held.
func (e *Exporter) countEnds(list []jobs.Listed) {
	before := e.counted
	e.counted = map[string]bool{}
	for _, l := range list {
		if l.Ended == nil {
			continue
		}
		e.counted[l.Run] = true
		if !before[l.Run] && l.Ended.After(e.began) {
			e.ended[group{l.Pool, stateOf(l)}]++
		}
	}
}

// take puts what a round has found in the place of what was shown. The lock is held.
func (e *Exporter) take(list []jobs.Listed, answers map[string]answer) {
	before := e.shown
	e.shown, e.count = map[string]shown{}, map[group]int64{}
	for i, l := range list {
		s := before[l.Name]
		if s.run != l.Run {
			s = shown{run: l.Run}
		}
		s.pool, s.state = l.Pool, stateOf(l)
		e.count[group{s.pool, s.state}]++
		a, asked := answers[l.Name]
		if asked {
			s.hear(a)
		}
		s.trouble = troubleOf(l, s.report, asked && a.silent)
		if i >= e.options.Most {
			s.at = time.Time{} // it is only counted
		}
		e.shown[l.Name] = s
	}
}

// hear takes a job's answer. One that has not answered keeps its numbers.
func (s *shown) hear(a answer) {
	if a.report.Job == "" || a.silent && a.report.Planned == 0 {
		return
	}
	switch {
	case s.at.IsZero():
		s.speed = a.report.Speed(a.at)
	case a.at.After(s.at):
		s.speed = a.report.SpeedSince(s.report, s.at, a.at)
	}
	s.report, s.at = a.report, a.at
}

// States of jobs, beside those of package job.
const (
	statePaused = "paused"
)

func stateOf(l jobs.Listed) string {
	if l.PausedSince != nil {
		return statePaused
	}
	return string(l.State)
}

// Kinds of trouble.
const (
	troubleUnserved = "unserved" // no worker serves a pool
	troubleOutage   = "outage"   // its store, or an input's host, is away
	troubleStuck    = "stuck"    // its workflow task fails
	troubleSilent   = "silent"   // it does not answer
	troubleSlowed   = "slowed"   // the handler has asked for a lower rate
)

func troubleOf(l jobs.Listed, r job.Report, silent bool) map[string]bool {
	if l.Ended != nil {
		return nil
	}
	return map[string]bool{
		troubleUnserved: r.Unserved || len(r.UnservedPools) > 0, troubleOutage: r.Outage != nil, troubleStuck: l.Stuck,
		troubleSilent: silent, troubleSlowed: r.Throttle != nil,
	}
}
