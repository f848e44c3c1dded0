package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/meters"
	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/internal/web/endpoint"
	"go.opentelemetry.io/otel/metric"
)

// metrics counts what happens in a worker and passes it on to meters, to sinks and to the worker's
// health. It is safe for concurrent use.
type metrics struct {
	link *link
	tally
	worker, pool string
	log          *slog.Logger
	began        time.Time
	repeats      repeats      // of failed attempts to end a holder
	state        atomic.Value // string: see Health.State

	set      *slotSet
	watchdog *watchdog.Watchdog
	programs bool // slots need their own processes

	restarts, reaps, failedReaps atomic.Int64
	out                          sync.Map // numbers of slots that are not replaced any more

	sinks    *sinks
	endpoint *endpoint.Endpoint // nil: none
	started  bool
}

func newMetrics(worker, pool string, log *slog.Logger) *metrics {
	m := &metrics{worker: worker, pool: pool, log: log.With("worker", worker, "pool", pool), began: time.Now()}
	m.state.Store(stateStarting)
	return m
}

// open makes the meters, takes the endpoint's address and readies the sinks. Nothing must have been
// counted before. Whether it succeeds or not, the metrics must be closed.
func (m *metrics) open(o Options, r *slotSet, w *watchdog.Watchdog, programs bool) error {
	m.set, m.watchdog, m.programs = r, w, programs
	m.sinks = newSinks(o.Sinks, o.SinkInterval, m.log, m.snapshot, m.sinkFailed)
	providers := []metric.MeterProvider{}
	if o.MeterProvider != nil {
		providers = append(providers, o.MeterProvider)
	}
	if o.Metrics != "" {
		shown, err := o.exposed.orNew(m.log)
		if err != nil {
			return err
		}
		if m.endpoint, err = endpoint.Listen(o.Metrics, m.routes(shown.handler), m.log); err != nil {
			return err
		}
		providers = append(providers, shown.provider)
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

// exposed is a provider, and what shows its values to Prometheus.
type exposed struct {
	provider metric.MeterProvider
	handler  http.Handler
}

// orNew returns a new one if there is none.
func (e exposed) orNew(log *slog.Logger) (exposed, error) {
	if e.provider != nil {
		return e, nil
	}
	provider, handler, err := meters.NewPrometheus(log)
	return exposed{provider, handler}, err
}

func (m *metrics) routes(handler http.Handler) http.Handler {
	ready := func() (any, bool) { h := m.health(time.Now()); return h, h.Healthy }
	return endpoint.Routes(handler, ready, func() (any, bool) { l := m.liveness(time.Now()); return l, l.Alive })
}

// start starts the endpoint and the sinks.
func (m *metrics) start() {
	m.started = true
	m.sinks.start()
	if m.endpoint == nil {
		return
	}
	m.log.Info("metrics", "url", "http://"+m.endpoint.Address()+"/metrics")
	m.endpoint.Serve(func(err error) { m.log.Error("the metrics endpoint has ended", "error", err) })
}

// Close gives the sinks their last snapshot and ends all that start has started. Nothing must be counted
// any more.
func (m *metrics) Close() {
	if m.started {
		m.sinks.Close()
	}
	if m.endpoint != nil {
		m.endpoint.Close()
	}
	m.meter(func(to *meters.Meters) { to.Close() })
}

// reading returns the worker's state as meters show it.
func (m *metrics) reading() meters.State {
	s := meters.State{Slots: map[string]int{}, RoundAge: -1, EventsLost: m.watchdog.Lost()}
	for _, name := range slotStates {
		s.Slots[name] = 0
	}
	now := time.Now()
	for _, slot := range m.set.slots {
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

// snapshot returns a snapshot for the sinks, with the windows since the last one.
func (m *metrics) snapshot() Snapshot {
	return Snapshot{
		Worker: m.worker, Pool: m.pool, Began: m.began, Time: time.Now(), Jobs: m.cut(),
		Restarts: m.restarts.Load(), Reaps: m.reaps.Load(), FailedReaps: m.failedReaps.Load(),
	}
}

// meter calls fn for the meters of each provider.
func (m *metrics) meter(fn func(*meters.Meters)) {
	for _, made := range m.meters {
		fn(made)
	}
}

func (m *metrics) sinkFailed() { m.meter(func(to *meters.Meters) { to.SinkFailed() }) }

// slotEvent counts what has happened to a slot.
func (m *metrics) slotEvent(e slotEvent) {
	switch e.Kind {
	case slotOut:
		m.out.Store(e.Slot, nil)
	case slotReplaced, callLeft:
		if errors.Is(e.Err, errClosing) {
			return
		}
		m.meter(func(to *meters.Meters) { to.Forget(e.Slot) })
		if _, out := m.out.Load(e.Slot); out {
			return // it is not replaced
		}
		m.restarts.Add(1)
		m.meter(func(to *meters.Meters) { to.Restart(reasonOf(e), e.Free) })
	}
}

// reasonOf returns one word for why a slot was replaced.
func reasonOf(e slotEvent) string {
	fault, ended := errors.AsType[*calls.Fault](e.Err)
	switch {
	case e.Kind == callLeft:
		return "abandoned"
	case !ended:
		return "start" // it could not be started, or did not get ready
	case fault.Err.Type == "Protocol":
		return "protocol"
	}
	return fault.Kind
}

// timerEvent counts and logs an event of the watchdog (T14). What the events of slots cover already is
// not logged again.
func (m *metrics) timerEvent(e watchdog.Event) {
	level := slog.LevelDebug
	reap := meters.Reap("")
	switch e.Kind {
	case watchdog.EventExpired:
		m.meter(func(to *meters.Meters) { to.Expiry(e.ReportOnly) })
		if e.ReportOnly {
			level = slog.LevelWarn // nothing else reports it
		}
	case watchdog.EventReaped:
		m.reaps.Add(1)
		reap = meters.ReapOK
	case watchdog.EventReapFailed:
		m.failedReaps.Add(1)
		reap, level = meters.ReapFailed, slog.LevelWarn
	case watchdog.EventReaperPanicked:
		reap, level = meters.ReapPanicked, slog.LevelError
	}
	if reap != "" {
		m.meter(func(to *meters.Meters) { to.Reaped(reap) })
	}
	if m.repeats.often(e) {
		level = slog.LevelDebug
	}
	logTimerEvent(m.log, level, e)
}

// measure records a value of a metric that a program has defined: see [meters.Meters.Program].
func (m *metrics) measure(name string, gauge bool, slot int, value float64) {
	m.meter(func(to *meters.Meters) { to.Program(name, gauge, slot, value) })
}

// MetricsAddress returns the HOST:PORT at which the worker's endpoint listens; "" if it has none (see
// Options.Metrics).
func (w *Worker) MetricsAddress() string {
	if w.metrics.endpoint == nil {
		return ""
	}
	return w.metrics.endpoint.Address()
}

// BatchBegan and the methods below make the tally a calls.Observer.
func (t *tally) BatchBegan(job string) { t.job(job).batches.Add(1) }

// BatchEnded counts an execution.
func (t *tally) BatchEnded(job string, err error) {
	j := t.job(job)
	j.batches.Add(-1)
	outcome := meters.OK
	if err != nil {
		outcome = meters.Failed
	}
	j.count(func(c *Counts) {
		c.Batches++
		if err != nil {
			c.FailedBatches++
		}
	})
	for _, s := range j.series {
		s.Batch(outcome)
	}
}

// CallBegan counts a call that is under way.
func (t *tally) CallBegan(job string) { t.job(job).calls.Add(1) }

// CallEnded counts a call.
func (t *tally) CallEnded(s calls.CallStats) {
	j := t.job(s.Job)
	j.calls.Add(-1)
	outcome := meters.OK
	switch {
	case s.Cut:
		outcome = meters.Cut
	case s.Fault != "":
		outcome = s.Fault
	}
	j.count(func(c *Counts) {
		c.Calls++
		c.CallTime += s.Took
		if s.Fault != "" {
			c.FailedCalls++
		}
		if n := int64(s.Items); n > 0 {
			c.Sizes.add(CallSizes{Calls: 1, Items: n, Smallest: n, Largest: n})
		}
	})
	for _, series := range j.series {
		series.Call(outcome, s.Items, s.Took)
	}
}

// Recorded counts outcomes.
func (t *tally) Recorded(r calls.RecordStats) {
	j := t.job(r.Job)
	j.count(func(c *Counts) {
		c.add(Counts{OK: r.OK, Failed: r.Failed, Dropped: r.Dropped, Retries: r.Retries, Expiries: r.Expiries, Isolations: r.Isolations})
	})
	for _, s := range j.series {
		s.Items(r.OK-r.Dropped, r.Dropped, r.Failed)
		s.Repairs(r.Retries, r.Expiries, r.Isolations)
	}
}

// Counts are a worker's counts of one job, or of all of them together. Work that it has done twice,
// because an execution of a batch was lost, counts twice.
type Counts struct {
	OK      int64 `json:"ok"`      // items with a result, dropped ones included
	Failed  int64 `json:"failed"`  // items with an error
	Dropped int64 `json:"dropped"` // items for which the handler returned no result

	Batches       int64 `json:"batches"`        // executions of batches that have ended
	FailedBatches int64 `json:"failed_batches"` // those that have failed

	Calls       int64         `json:"calls"`        // calls of the handler that have ended
	FailedCalls int64         `json:"failed_calls"` // those that have failed as a whole
	CallTime    time.Duration `json:"call_time"`    // of all calls together, in nanoseconds

	Retries    int64 `json:"retries"`    // calls that were retried
	Expiries   int64 `json:"expiries"`   // calls and items that took longer than one of their timers
	Isolations int64 `json:"isolations"` // calls halved to find the item that makes them fail

	Sizes CallSizes `json:"sizes"`
}

// CallSizes are about the calls that were answered: those with an outcome for one item or more.
type CallSizes struct {
	Calls    int64 `json:"calls"`
	Items    int64 `json:"items"`    // in all of them
	Smallest int64 `json:"smallest"` // items of the smallest call; 0: there was none
	Largest  int64 `json:"largest"`  // items of the largest call
}

// Mean returns the mean number of items of a call, 0 if there was none.
func (s CallSizes) Mean() float64 {
	if s.Calls == 0 {
		return 0
	}
	return float64(s.Items) / float64(s.Calls)
}

func (s *CallSizes) add(o CallSizes) {
	if o.Calls > 0 && (s.Calls == 0 || o.Smallest < s.Smallest) {
		s.Smallest = o.Smallest
	}
	s.Largest = max(s.Largest, o.Largest)
	s.Calls += o.Calls
	s.Items += o.Items
}

func (c *Counts) add(o Counts) {
	c.OK += o.OK
	c.Failed += o.Failed
	c.Dropped += o.Dropped
	c.Batches += o.Batches
	c.FailedBatches += o.FailedBatches
	c.Calls += o.Calls
	c.FailedCalls += o.FailedCalls
	c.CallTime += o.CallTime
	c.Retries += o.Retries
	c.Expiries += o.Expiries
	c.Isolations += o.Isolations
	c.Sizes.add(o.Sizes)
}

const (
	// maxJobs is how many jobs, the first ones, a worker counts separately.
	maxJobs = 100
	// OtherJobs is the name under which a worker counts all jobs after its first 100 together.
	OtherJobs = "other"
)

// tally counts what a worker does, job by job. It is safe for concurrent use.
type tally struct {
	meters []*meters.Meters // set before the first count

	mu   sync.RWMutex
	jobs map[string]*jobTally
}

// jobTally is what is counted of one job.
type jobTally struct {
	name           string
	series         []*meters.Job // one in each provider
	calls, batches atomic.Int64  // under way

	mu     sync.Mutex
	past   Counts // up to the last cut
	window Counts // since
}

// job returns the counts of a job, or those of all jobs that are not counted separately.
func (t *tally) job(name string) *jobTally {
	t.mu.RLock()
	j, full := t.jobs[name], len(t.jobs) >= maxJobs
	t.mu.RUnlock()
	switch {
	case j != nil:
		return j
	case full && name != OtherJobs:
		return t.job(OtherJobs)
	}
	return t.add(name)
}

func (t *tally) add(name string) *jobTally {
	made := &jobTally{name: name}
	for _, m := range t.meters {
		made.series = append(made.series, m.Job(name))
	}
	t.mu.Lock()
	if t.jobs[name] != nil || len(t.jobs) >= maxJobs && name != OtherJobs { // another goroutine has been quicker
		t.mu.Unlock()
		return t.job(name)
	}
	if t.jobs == nil {
		t.jobs = map[string]*jobTally{}
	}
	t.jobs[name] = made
	t.mu.Unlock()
	for _, s := range made.series {
		s.Begin()
	}
	return made
}

// each calls fn with all jobs that are counted, in no order.
func (t *tally) each(fn func(*jobTally)) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, j := range t.jobs {
		fn(j)
	}
}

// cut returns the counts in total, and since the last cut.
func (t *tally) cut() map[string]JobCounts {
	cut := map[string]JobCounts{}
	t.each(func(j *jobTally) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.past.add(j.window)
		cut[j.name] = JobCounts{Total: j.past, Window: j.window}
		j.window = Counts{}
	})
	return cut
}

func (j *jobTally) count(fn func(*Counts)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fn(&j.window)
}
