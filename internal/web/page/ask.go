package page

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// Numbers are what follows from several reports of a job.
type Numbers struct {
	// ItemsPerSecond is the speed of the last seconds, or, if that is not known, the average.
	ItemsPerSecond float64 `json:"items_per_second,omitempty"`
	// Percent, of the input, and SecondsLeft are left out if they are not known.
	Percent     *int64   `json:"percent,omitempty"`
	SecondsLeft *float64 `json:"seconds_left,omitempty"`
}

// Status is a job's report with the batches in hand, the oldest first.
type Status struct {
	job.Report
	Running []jobs.RunningBatch `json:"running,omitempty"`
}

// Job is a status with what follows from it.
type Job struct {
	Status
	Numbers
	// Trouble is why the report has the last numbers that are known; empty: it is of now.
	Trouble string `json:"trouble,omitempty"`

	spec     *job.Spec // nil: not known
	examples Failures
	noted    []job.Sample // by looking at it
}

// ListedJob is a job of a list. Its Progress is of now if the job runs and has answered.
type ListedJob struct {
	jobs.Listed
	Numbers
	// SilentSince is since when a running job does not answer; left out: it does, or has not been asked.
	SilentSince *time.Time `json:"silent_since,omitempty"`
}

// JobList is a page of a list of jobs. Next continues it; left out: it has ended.
type JobList struct {
	Jobs []ListedJob `json:"jobs"`
	Next string      `json:"next,omitempty"`
}

// Workers lists the workers of each pool, and what they run.
type Workers struct {
	Workers []jobs.PoolWorker   `json:"workers"`
	Running []jobs.RunningBatch `json:"running"`
}

const (
	// pageSize is how many jobs are on a page.
	pageSize = 100
	// askLimit is how long a job may take to answer, and listLimit one of a list.
	askLimit, listLimit = 3 * time.Second, 1500 * time.Millisecond
	// listAsks is how many jobs of a list are asked for one answer, those whose last answers are the oldest, and
	// askedAtOnce how many at once.
	listAsks, askedAtOnce = 16, 8
	// silentPause is how long a job that has not answered is left alone in a list.
	silentPause = 30 * time.Second
	// maxListed is how many running jobs are looked at for what workers run.
	maxListed = 1000
)

// listQuery is what the address of a list says.
type listQuery struct {
	filter jobs.ListFilter
	from   []byte
}

// stateNames are the states that lists can be filtered by.
var stateNames = []job.State{job.Running, job.Stopping, job.Completed, job.Stopped, job.Failed}

// readListQuery reads state, pool and name, of which the first two may be given several times, and the place to begin
// at.
func readListQuery(values url.Values) (q listQuery, err error) {
	for _, s := range values["state"] {
		if s == "" {
			continue
		}
		if !slices.Contains(stateNames, job.State(s)) {
			return q, badRequest("unknown state %q: use running, stopping, completed, stopped or failed", s)
		}
		q.filter.States = append(q.filter.States, job.State(s))
	}
	for _, pool := range values["pool"] {
		if pool == "" {
			continue
		}
		if err := limits.CheckName("pool", pool); err != nil {
			return q, badRequest("%v", err)
		}
		q.filter.Pools = append(q.filter.Pools, pool)
	}
	if q.filter.Name = strings.TrimSpace(values.Get("name")); q.filter.Name != "" {
		if err := limits.CheckBeginning(q.filter.Name); err != nil {
			return q, badRequest("%v", err)
		}
	}
	if q.from, err = base64.RawURLEncoding.DecodeString(values.Get("from")); err != nil {
		return q, badRequest("invalid place %q: take it from the page before", values.Get("from"))
	}
	return q, nil
}

// encode writes the query, each in one way.
func (q listQuery) encode() string {
	values := url.Values{}
	for _, state := range q.filter.States {
		values.Add("state", string(state))
	}
	values["pool"] = slices.Clone(q.filter.Pools)
	for name, several := range values {
		slices.Sort(several)
		values[name] = slices.Compact(several)
	}
	if q.filter.Name != "" {
		values.Set("name", q.filter.Name)
	}
	if len(q.from) > 0 {
		values.Set("from", base64.RawURLEncoding.EncodeToString(q.from))
	}
	return values.Encode()
}

// listSource is where a list of jobs comes from. now: jobs that run are asked.
func (p *Page) listSource(r *http.Request, now bool) source {
	values := r.URL.Query()
	query, err := readListQuery(values)
	s := source{
		key: "jobs?" + query.encode(), err: err, title: "Jobs", events: apiPath + "/jobs/events?" + query.encode(),
		view: func(said any) any { return newListView(said.(JobList), values, time.Now()) },
	}
	s.ask = func(ctx context.Context) (any, int, error) { return p.list(ctx, query, now) }
	return s
}

// list asks for a page of jobs. now: those that run are asked, too.
func (p *Page) list(ctx context.Context, q listQuery, now bool) (list JobList, asks int, err error) {
	client, err := p.ask()
	if err != nil {
		return list, 0, err
	}
	page, err := client.ListPage(ctx, pageSize, &q.filter, q.from)
	if err != nil {
		return list, 1, err
	}
	list = JobList{Jobs: make([]ListedJob, len(page.Jobs)), Next: base64.RawURLEncoding.EncodeToString(page.Next)}
	var asked []*ListedJob
	for i, listed := range page.Jobs {
		one := &list.Jobs[i]
		one.Listed = listed
		one.Numbers = listedNumbers(listed, time.Now())
		if now && !listed.State.Final() {
			p.known.of(listed.Run).recall(one, time.Now())
			asked = append(asked, one)
		}
	}
	asked = p.known.oldest(asked, listAsks)
	p.askAll(ctx, client, asked)
	return list, 1 + len(asked), nil
}

// askAll asks jobs of a list for their reports, some at once.
func (p *Page) askAll(ctx context.Context, client *jobs.Client, asked []*ListedJob) {
	var group errgroup.Group
	group.SetLimit(askedAtOnce)
	for _, one := range asked {
		group.Go(func() error {
			return trap.Run("asking a job", func() { p.askOne(ctx, client, one) })
		})
	}
	if err := group.Wait(); err != nil {
		p.options.Log.Error("jobs could not be asked", "error", err)
	}
}

func (p *Page) askOne(ctx context.Context, client *jobs.Client, one *ListedJob) {
	known := p.known.of(one.Run)
	report, err := reportWithin(ctx, client.Get(one.Name), listLimit)
	now := time.Now()
	defer func() { known.keep(*one, now) }()
	if err != nil || report.Run != one.Run {
		if ctx.Err() == nil && jobs.Unanswered(err) {
			one.SilentSince = known.silent(report.AsOf, now)
		}
		return
	}
	known.note(report, now)
	one.SilentSince = nil
	one.State, one.PausedSince, one.Ended = report.State, report.PausedSince, report.Ended
	one.Progress = &job.Counted{
		OK: report.OK, Failed: report.Failed, Dropped: report.Dropped, Batches: report.Batches, Bytes: report.InputBytes, At: now,
		Planned: report.Planned, PlanDone: report.PlanDone, TotalBytes: report.TotalBytes,
	}
	one.Numbers = known.numbers(report, now)
}

// listedNumbers are those of a job that is not asked.
func listedNumbers(l jobs.Listed, now time.Time) (n Numbers) {
	if percent, ok := l.Percent(); ok {
		n.Percent = &percent
	}
	if l.Progress == nil {
		return n
	}
	until := l.Progress.At
	if l.Ended != nil {
		until = *l.Ended
	}
	if seconds := until.Sub(l.Started).Seconds(); seconds > 0 && until.Before(now.Add(time.Minute)) {
		n.ItemsPerSecond = float64(l.Progress.Done()) / seconds
	}
	return n
}

func reportWithin(ctx context.Context, run *jobs.Run, limit time.Duration) (job.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return run.Report(ctx)
}

// jobSource is where a job comes from.
func (p *Page) jobSource(r *http.Request) source {
	name := r.PathValue("name")
	s := source{
		key: "job " + name, title: name, events: apiPath + "/jobs/" + url.PathEscape(name) + "/events",
		ask:  func(ctx context.Context) (any, int, error) { return p.job(ctx, name) },
		view: func(said any) any { return p.newJobView(said.(Job), time.Now()) },
	}
	if limits.CheckName("job", name) != nil {
		s.err = &jobs.NotFoundError{Name: name}
	}
	return s
}

// job asks for a job with all that its page shows, and returns how many requests that took.
func (p *Page) job(ctx context.Context, name string) (j Job, asks int, err error) {
	client, err := p.ask()
	if err != nil {
		return Job{}, 0, err
	}
	asks = 1
	report, err := reportWithin(ctx, client.Get(name), askLimit)
	if err != nil {
		if report.Job == "" || !jobs.Unanswered(err) {
			return Job{}, asks, err
		}
		j.Trouble = "The job does not answer: no worker coordinates it, or those that do are too busy. These are the last numbers that are known."
	}
	j.Report = report
	if !report.State.Final() {
		asks++
		j.Running, _ = client.Get(name).Running(ctx) // the report is worth having without them
	}
	now := time.Now()
	known := p.known.of(report.Run)
	if err == nil {
		known.note(report, now)
	}
	j.Numbers = known.numbers(report, now)
	var read int
	j.spec, read = known.specOf(ctx, client, report)
	j.examples = p.failures(ctx, known, report)
	j.noted = known.samples()
	return j, asks + read, nil
}

// workersSource is where the workers come from.
func (p *Page) workersSource() source {
	return source{
		key: "workers", title: "Workers", events: apiPath + "/workers/events",
		ask: func(ctx context.Context) (any, int, error) {
			client, err := p.ask()
			if err != nil {
				return nil, 0, err
			}
			found, pools, asks, err := askWorkers(ctx, client, nil)
			return poolsAndWorkers{found, pools}, asks, err
		},
		view: func(said any) any { return newWorkersView(said.(poolsAndWorkers), time.Now()) },
	}
}

// poolsAndWorkers are the pools that should have workers, and those that they have.
type poolsAndWorkers struct {
	Workers
	pools []string
}

// AskWorkers returns the workers of pools and what they run, and the pools. Without pools they are those of all workers
// that coordinate jobs, idle ones too, and of the jobs that run.
func AskWorkers(ctx context.Context, client *jobs.Client, of []string) (found Workers, pools []string, err error) {
	found, pools, _, err = askWorkers(ctx, client, of)
	return found, pools, err
}

// askWorkers is AskWorkers, and returns how many requests that took.
func askWorkers(ctx context.Context, client *jobs.Client, of []string) (found Workers, pools []string, asks int, err error) {
	found = Workers{Workers: []jobs.PoolWorker{}, Running: []jobs.RunningBatch{}}
	asks = 1
	listed, err := client.List(ctx, maxListed, &jobs.ListFilter{Running: true, Pools: of})
	if err != nil {
		return found, nil, asks, err
	}
	pools = slices.Clone(of)
	if len(of) == 0 {
		asks++
		if pools, err = client.Pools(ctx); err != nil {
			return found, nil, asks, err
		}
	}
	asks += len(listed)
	running, err := runningOf(ctx, client, listed)
	if err != nil {
		return found, nil, asks, err
	}
	for _, batch := range running {
		if len(of) == 0 || batch.Pool == "" || slices.Contains(of, batch.Pool) {
			found.Running = append(found.Running, batch)
		}
	}
	for _, j := range listed {
		if len(of) == 0 {
			pools = append(append(pools, j.Pool), j.Pools...)
		}
	}
	slices.Sort(pools)
	pools = slices.Compact(pools)
	for _, pool := range pools {
		asks++
		workers, err := client.Workers(ctx, pool)
		if err != nil {
			return found, nil, asks, err
		}
		found.Workers = append(found.Workers, workers...)
	}
	return found, pools, asks, nil
}

// runningOf returns the batches that workers run of jobs, in the order of the jobs. Some are asked for at once.
func runningOf(ctx context.Context, client *jobs.Client, listed []jobs.Listed) ([]jobs.RunningBatch, error) {
	all := make([][]jobs.RunningBatch, len(listed))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(askedAtOnce)
	for i, j := range listed {
		group.Go(func() error {
			return trap.Call("asking what runs", func() (err error) {
				all[i], err = client.Get(j.Name).Running(ctx)
				return err
			})
		})
	}
	err := group.Wait()
	return slices.Concat(all...), err
}

// silentWorker is how long a worker may not be heard of: a poll for batches takes a minute, and heartbeats come more
// often than that.
const silentWorker = 90 * time.Second

// Unheard reports whether nothing has been heard of a worker for long, by what runs.
func (w Workers) Unheard(one jobs.PoolWorker, now time.Time) bool {
	heard := one.Seen
	for _, b := range w.Running {
		if b.Worker != one.Worker {
			continue
		}
		if heard = latest(heard, b.Since, b.Beat); b.Beat.IsZero() && now.Sub(b.Since) > silentWorker {
			heard = latest(heard, now.Add(-silentWorker)) // its first heartbeat may come after a quarter of the job's expiry
		}
	}
	return now.Sub(heard) > silentWorker
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// isGone reports whether an error says that a job is not there.
func isGone(err error) bool {
	_, gone := errors.AsType[*jobs.NotFoundError](err)
	return gone
}
