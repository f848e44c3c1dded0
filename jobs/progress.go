package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/samples"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/temporal/lookup"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// jobProgress is what several reports have shown of a job: a workflow that does not answer keeps its last numbers. One
// goroutine at a time uses it.
type jobProgress struct {
	run        *Run
	report     job.Report   // the last one
	at         time.Time    // when the job has answered last
	job        *wire.Answer // what it answered; nil: it has not
	flying     []string     // of the job's own executions
	legs       map[string]legProgress
	heartbeats map[string]execution // of executions that have not ended, by ID
}

// legProgress is a leg's last answer.
type legProgress struct {
	job.Progress
	at   time.Time
	gone bool
}

// execution is what heartbeats have said of one.
type execution struct {
	wire.Answered
	owner        string    // ID of the workflow; "" if it is not known
	began, heard time.Time // when it began, as far as that is known, and when its numbers were reported
}

func newJobProgress(r *Run) *jobProgress {
	return &jobProgress{run: r, legs: map[string]legProgress{}, heartbeats: map[string]execution{}}
}

// again asks once more. It returns no error if nobody answers.
func (g *jobProgress) again(ctx context.Context) error {
	report, err := g.run.reportWith(ctx, g.ask)
	if _, ok := errors.AsType[*trap.DefectError](err); ok {
		return err
	}
	if err == nil || report.Job != "" {
		g.report = report
	}
	return nil
}

// ask asks the job and its legs. After an error the report has the last numbers that are known.
func (g *jobProgress) ask(ctx context.Context) (job.Report, error) {
	r := g.run
	desc, err := r.client.temporal.DescribeWorkflowExecution(ctx, r.name, "")
	if err != nil {
		return g.report, fmt.Errorf("asking for job %s: %w", r.name, err)
	}
	g.readHeartbeats(ctx, desc)
	named := g.named()
	answer, err := r.ask(ctx, named)
	if err != nil {
		g.report = g.lastKnown(desc)
		return g.report, err
	}
	g.job, g.at, g.flying = &answer, time.Now(), answer.Flying
	report := answer.Report
	if t := report.Throttle; t != nil && t.Rate == 0 && time.Now().After(t.Until) {
		report.Throttle = nil // the job's own clock stops while nothing happens
	}
	err = g.askLegs(ctx, report.OpenLegs, named)
	g.putTogether(&report)
	if report.Loop != nil && !report.State.Final() {
		r.addTicks(ctx, &report)
	}
	if report.Outage == nil && report.InFlight == 0 && !report.State.Final() {
		report.Outage = r.heldUp(ctx, report.OpenLegs)
	}
	g.report = report
	return report, err
}

// ask asks the job alone.
func (r *Run) ask(ctx context.Context, named []string) (wire.Answer, error) {
	answer, err := ask[wire.Answer](ctx, r, r.name, wire.QueryReport, named)
	if err != nil {
		return answer, r.asked("for its report", err)
	}
	return answer, nil
}

// ask sends a query that names executions.
func ask[T any](ctx context.Context, r *Run, workflow, query string, named []string) (answer T, err error) {
	var args []any
	if len(named) > 0 {
		args = []any{named}
	}
	err = lookup.Query(ctx, r.client.temporal, workflow, "", query, &answer, args...)
	return answer, err
}

// askLegs asks all legs at once for their progress.
func (g *jobProgress) askLegs(ctx context.Context, legs, named []string) error {
	var mu sync.Mutex
	return eachOf(legs, func(leg string) error {
		p, err := ask[job.Progress](ctx, g.run, leg, wire.QueryProgress, named)
		gone := errors.As(err, new(*serviceerror.NotFound)) // it has not been started yet
		if err != nil && !gone {
			return fmt.Errorf("asking %s for its progress: %w", leg, err)
		}
		mu.Lock()
		defer mu.Unlock()
		g.legs[leg] = legProgress{p, time.Now(), gone}
		return nil
	})
}

// askedAtOnce is how many workflows are asked at once.
const askedAtOnce = 8

// eachOf calls fn for each of the names, for several at once, and joins the errors.
func eachOf(names []string, fn func(string) error) error {
	var errs []error
	for some := range slices.Chunk(names, askedAtOnce) {
		var running []<-chan error
		for _, name := range some {
			running = append(running, trap.Go("asking a workflow", func() error { return fn(name) }))
		}
		for _, done := range running {
			errs = append(errs, <-done)
		}
	}
	return errors.Join(errs...)
}

// readHeartbeats takes what the heartbeats of running batches say, of the job's workflow and of those that it has
// started.
func (g *jobProgress) readHeartbeats(ctx context.Context, desc *workflowservice.DescribeWorkflowExecutionResponse) {
	var legs []string
	for _, child := range desc.GetPendingChildren() {
		legs = append(legs, child.GetWorkflowId())
	}
	var mu sync.Mutex
	heard := map[string]*workflowservice.DescribeWorkflowExecutionResponse{g.run.name: desc}
	_ = eachOf(legs, func(leg string) error {
		of, err := g.run.client.temporal.DescribeWorkflowExecution(ctx, leg, "")
		if err != nil {
			return nil // the report is worth having without it
		}
		mu.Lock()
		defer mu.Unlock()
		heard[leg] = of
		return nil
	})
	for _, of := range heard {
		for _, a := range of.GetPendingActivities() {
			hint, beat := lookup.LastHint(a, g.run.client.converter)
			for _, n := range hint.Progress {
				e := g.heartbeats[n.Activity]
				if e.Answered.Items <= n.Items {
					e.Answered, e.began, e.heard = n, beat, beat
				}
				g.heartbeats[n.Activity] = e
			}
		}
	}
	for owner, of := range heard {
		for _, a := range of.GetPendingActivities() {
			if e, ok := g.heartbeats[a.GetActivityId()]; ok {
				e.owner, e.began = owner, beganBefore(a, e.heard)
				g.heartbeats[a.GetActivityId()] = e
			}
		}
	}
}

// named returns the executions that heartbeats have said something of.
func (g *jobProgress) named() []string { return slices.Sorted(maps.Keys(g.heartbeats)) }

// putTogether adds to the job's own report what legs and heartbeats say.
func (g *jobProgress) putTogether(report *job.Report) {
	counted := map[string]bool{} // owners whose account is up to date
	flying := map[string]bool{}
	note := func(owner string, ids []string) {
		counted[owner] = true
		for _, id := range ids {
			flying[id] = true
		}
	}
	note(g.run.name, g.flying)
	for _, leg := range report.OpenLegs {
		known, ok := g.legs[leg]
		switch {
		case !ok:
			g.includeReported(report, leg)
		case known.gone:
		case known.at.Before(g.at): // it has not answered this time
			wire.Include(report, known.Progress)
			noteSilent(report, known.at, leg)
		default:
			wire.Include(report, known.Progress)
			note(leg, known.Flying)
		}
	}
	life := samples.New(report.Life.Grain())
	for _, id := range g.named() {
		e := g.heartbeats[id]
		open := e.owner == g.run.name || slices.Contains(report.OpenLegs, e.owner)
		if flying[id] || open && !counted[e.owner] {
			takeInHand(report, e.Answered)
			life.Add(e.began, e.heard, samples.Counts{samples.OK: e.Items - e.Failed, samples.Failed: e.Failed}, "")
			continue
		}
		delete(g.heartbeats, id) // it has been counted, or lost
	}
	report.Life = report.Life.Plus(life.Pack())
}

// beganBefore returns when an execution began which was heard of later; that time, if it is not known.
func beganBefore(a *workflow.PendingActivityInfo, heard time.Time) time.Time {
	if began := a.GetLastStartedTime(); began != nil {
		return began.AsTime()
	}
	return heard
}

// includeReported adds what the job has heard of a leg that has never answered.
func (g *jobProgress) includeReported(report *job.Report, leg string) {
	at := report.Started
	for _, h := range g.job.Heard {
		if h.Leg == leg {
			report.Totals.Add(h.Counted.Totals())
			at = h.At
		}
	}
	noteSilent(report, at, leg)
}

// lastKnown returns the report of a job that does not answer: its last answers, or what is in its memo.
func (g *jobProgress) lastKnown(desc *workflowservice.DescribeWorkflowExecutionResponse) job.Report {
	if g.job != nil {
		report := g.job.Report
		g.putTogether(&report)
		noteSilent(&report, g.at, g.run.name)
		return report
	}
	c := g.run.client
	info := desc.GetWorkflowExecutionInfo()
	l := c.listed(info)
	report := job.Report{Job: l.Name, Run: l.Run, Pool: l.Pool, State: l.State, PausedSince: l.PausedSince, Started: l.Started, Ended: l.Ended, Silent: []string{l.Name}, AsOf: l.Started}
	if p := l.Progress; p != nil {
		report.OK, report.Failed, report.Planned, report.PlanDone, report.AsOf = p.OK, p.Failed, p.Planned, p.PlanDone, p.At
		report.InputBytes, report.TotalBytes = p.Bytes, p.TotalBytes
	}
	for _, e := range g.heartbeats {
		takeInHand(&report, e.Answered) // what the memo says was counted before they were begun, or has been since
	}
	return report
}

// noteSilent records a workflow that has not answered, and the age of its numbers.
func noteSilent(r *job.Report, at time.Time, workflow string) {
	if r.AsOf.IsZero() || at.Before(r.AsOf) {
		r.AsOf = at
	}
	r.Silent = append(slices.Clip(r.Silent), workflow)
}

// takeInHand adds the answered items of a running batch.
func takeInHand(r *job.Report, a wire.Answered) {
	r.OK += a.Items - a.Failed
	r.Failed += a.Failed
	r.InputBytes += a.Bytes
	r.InHand += a.Items
}
