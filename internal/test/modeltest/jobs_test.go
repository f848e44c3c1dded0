package modeltest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/base/samples"
	"github.com/stint-run/stint/internal/data/stages/stagestest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// jobSimulation is one schedule of the workflows themselves: a job and its legs, over continue-as-new, hand-overs,
// stops, terminations, resumes and redrives.
type jobSimulation struct {
	*simulation
	in      wire.StartInput
	report  job.Report
	clients func(ctx workflow.Context, v *server) // of a feed; nil: there are none
}

// TestModel_Jobs runs 8,000 schedules of jobs with their legs (50 with -short), the same ones each time: see
// [TestModel]. M9: their samples add up to what their reports count.
func TestModel_Jobs(t *testing.T) {
	t.Parallel()
	runAll(t, 0.8, 8_000, 50, 5, simulateJob)
}

// TestModel_JobStages runs 1,000 schedules of jobs with random pipelines (15 with -short), the same ones each time: see
// [TestModel].
func TestModel_JobStages(t *testing.T) {
	t.Parallel()
	runAll(t, 0.1, 1_000, 15, 6, simulateJobStages)
}

func simulateJob(c *choices) (log []string, err error) {
	j := newJob(c, job.Spec{Format: "text"})
	j.poison = j.pick(4, 40) == 1
	return j.schedule()
}

func simulateJobStages(c *choices) (log []string, err error) {
	j := newJob(c, job.Spec{Format: "jsonl", Stages: stagestest.Stages(evenly{c}, 6)})
	j.begin()
	if j.staged.deadly {
		j.staged.calm = false // what has died is seen more than once
	}
	return j.schedule()
}

func newJob(c *choices, spec job.Spec) *jobSimulation {
	j := &jobSimulation{simulation: newSimulation(c, withSizes(c, spec))}
	j.stdin, j.spec.Files.Input = false, []string{bucket + "in/"}
	j.pages = 2 + j.pick(5, 50)
	return j
}

// withSizes is the spec with small batches, and a small window.
func withSizes(c *choices, spec job.Spec) job.Spec {
	spec.BatchItems, spec.Window = 1+int64(c.pick(5, 80)), 1+c.pick(6, 80)
	if len(spec.Stages) == 0 {
		spec.Pool = "pool"
	}
	spec.Attempts, spec.Grace = maxFaults+2, time.Second // faults alone fail nothing
	return spec
}

// schedule runs the job, and its redrives.
func (j *jobSimulation) schedule() (log []string, err error) {
	j.input("b.txt.gz")
	j.input("c.txt")
	j.input("d.txt")
	j.processes = []*process{j.newProcess(), j.newProcess()}
	defer func() {
		j.close()
		log = j.log
	}()
	for {
		if err := j.complete(); errors.Is(err, errHopeless) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		if err := j.verify(); err != nil {
			return nil, err
		}
		if j.pick(2, 50) == 0 || j.report.Failed == 0 || j.generation == 2 {
			break
		}
		j.generation++
		j.note("redrive")
		j.redrive = &job.Redrive{Manifests: j.report.Manifests, Output: *j.report.Output, Planned: j.report.Planned, Runs: []string{j.report.Run}}
	}
	// Whatever still runs of earlier runs, or was given up, changes nothing any more.
	j.settle()
	if err := j.verify(); err != nil {
		return nil, fmt.Errorf("after all has ended: %w", err)
	}
	return nil, nil
}

// maxRuns is far more runs than faults end.
const maxRuns = 10 * maxFaults

var errHopeless = errors.New("nothing worked")

// complete runs the job, or its redrive, until it has completed.
func (j *jobSimulation) complete() error {
	j.in = wire.StartInput{Spec: j.spec, Version: wire.LogicVersion, Redrive: j.redrive}
	for runs := 0; ; runs++ {
		j.newRun()
		j.afresh = len(j.in.Resume)+len(j.in.Salvage) == 0
		v := newServer(j.simulation)
		var next *wire.StartInput // nil: the run was not terminated
		var unknown error
		err := v.run(wire.JobInput{StartInput: j.in}, func(ctx workflow.Context) {
			if j.clients != nil && j.redrive == nil {
				workflow.Go(ctx, func(ctx workflow.Context) { j.clients(ctx, v) })
			}
			if runs < 4 {
				next, unknown = j.interrupt(ctx, v)
			}
		})
		if err := errors.Join(err, unknown); err != nil {
			return err
		}
		if next == nil {
			if done, err := j.ended(v); done || err != nil {
				return err
			}
			if runs > maxRuns {
				return fmt.Errorf("the job does not complete: run after run ends as %s: %v", j.report.State, j.report.Error)
			}
			resumed := j.next(j.report)
			resumed.Salvage = slices.Clone(j.in.Salvage[max(0, len(j.in.Salvage)-j.report.Salvage):])
			next = &resumed
		}
		if j.in, err = sent(*next); err != nil {
			return err
		}
	}
}

// interrupt stops or terminates a run at any time, or leaves it alone. It returns how a run is resumed that was
// terminated.
func (j *jobSimulation) interrupt(ctx workflow.Context, v *server) (*wire.StartInput, error) {
	what := v.pick(3, 50)
	if what == 0 {
		return nil, nil
	}
	at := v.pick(300, 100)
	_ = workflow.Await(ctx, func() bool { return v.over || v.moves >= at })
	switch {
	case v.over:
		return nil, nil
	case what == 1:
		v.note("a stop")
		for leg := range 3 { // no leg takes items then
			if f := v.flows[wire.LegID(v.spec.Name, v.open+leg)]; f != nil && !f.ended && j.clients != nil {
				f.signal(wire.SignalBar).SendAsync(payload(nil))
			}
		}
		v.flows[v.spec.Name].signal(wire.SignalStop).SendAsync(payload(job.Stop{Reason: "the model"}))
		return nil, nil
	}
	v.note("terminated")
	v.over = true
	report, salvage, err := v.remains(j.in)
	if errors.Is(err, errNotBegun) {
		return &j.in, nil // as if it had never been started
	}
	if err != nil {
		return nil, fmt.Errorf("after it was terminated: %w", err)
	}
	if j.staged != nil {
		j.staged.relisted = true // items are seen again
	}
	next := j.next(report)
	next.Salvage = salvage
	return &next, nil
}

// ended takes the end of a run. It returns false if the job was stopped.
func (j *jobSimulation) ended(v *server) (done bool, err error) {
	j.report = v.result
	defer func() { err = errors.Join(err, j.lived()) }()
	if v.err != nil {
		var app *temporal.ApplicationError
		if !errors.As(v.err, &app) || app.Details(&j.report) != nil {
			return false, v.err
		}
		if j.report.Error != nil && j.report.Error.Type == job.ErrorHopeless {
			return false, errHopeless
		}
		return false, fmt.Errorf("the job fails: %w", v.err)
	}
	switch j.report.State {
	case job.Completed:
		return true, nil
	case job.Stopped:
		j.note("stopped: %d of %d items", j.report.Done(), j.report.Planned)
		return false, nil
	}
	return false, fmt.Errorf("the job has ended as %s", j.report.State)
}

// lived checks, for M9, that the samples of a run that has ended add up to what its report counts.
func (j *jobSimulation) lived() error {
	r := j.report
	if r.Planned == 0 { // it was stopped before it knew what earlier runs have done
		return nil
	}
	sum := r.Life.Series().Sum()
	if sum[samples.OK] != r.OK || sum[samples.Failed] != r.Failed || sum[samples.Reused] != r.Reused {
		return fmt.Errorf("the samples add up to %v, and the report counts %d ok, %d failed, %d reused", sum, r.OK, r.Failed, r.Reused)
	}
	return nil
}

// next is how the job is resumed after a run that has ended with this report: see [jobs.Client.Resume].
func (j *jobSimulation) next(report job.Report) wire.StartInput {
	next := j.in
	next.Resume, next.Life = report.Manifests, report.WithSamples().WithLife().Life
	if j.redrive == nil && j.spec.Feed != nil {
		next.Accepted = max(j.in.Accepted, report.Planned)
		return next
	}
	if j.redrive == nil {
		next.Earlier = append(slices.Clone(j.in.Earlier), report.Run)
		return next
	}
	again := *j.in.Redrive
	again.Runs = append(slices.Clone(again.Runs), report.Run)
	next.Redrive, next.Resume = &again, j.in.Resume
	if report.Redrive != nil {
		next.Resume = report.Redrive.Done
	}
	return next
}

// verify compares what is published, and the report, with the model.
func (j *jobSimulation) verify() error {
	table, err := j.accepted(j.report.Manifests)
	if err != nil {
		return err
	}
	if j.staged != nil {
		t := j.report.Totals
		j.staged.totals, j.planned = t, j.report.Planned
	}
	if err := j.check(table, j.finished); err != nil {
		return err
	}
	r, books := j.report, j.finished.Books
	if r.OK+r.Failed != r.Planned || r.OK != books.OK || r.Failed != books.Failed || r.Dropped != books.Dropped || r.Planned != books.Items {
		return fmt.Errorf("the report counts %d items, %d ok, %d failed, %d dropped, and the books are %+v", r.Planned, r.OK, r.Failed, r.Dropped, books)
	}
	return nil
}

// poisonous reports whether an item of a job without stages, by its ordinal, kills its workers until it is run again.
func (s *simulation) poisonous(ordinal int64) bool {
	sum := fnv.New32a()
	fmt.Fprint(sum, ordinal)
	return s.poison && s.generation == 0 && sum.Sum32()>>8%16 == 0
}

// work is what an activity does.
type work struct {
	name     string
	do       func(ctx context.Context, a *activities.Activities) (any, error)
	deadly   bool // the process dies of it
	narrowed bool // of a batch that was narrowed down because workers have died
	away     bool // what it needs is away
}

// decoded gives the work of an activity its input.
func decoded[In, Out any](name string, arg *common.Payloads, change func(*In), do func(a *activities.Activities, ctx context.Context, in In) (Out, error)) (*work, error) {
	var in In
	if err := converter.GetDefaultDataConverter().FromPayloads(arg, &in); err != nil {
		return nil, err
	}
	if change != nil {
		change(&in)
	}
	return &work{name: name, do: func(ctx context.Context, a *activities.Activities) (any, error) {
		in, err := passed(in) // each attempt has its own
		if err != nil {
			return nil, err
		}
		return do(a, ctx, in)
	}}, nil
}

// work returns what an attempt at an activity does.
func (v *server) work(name string, arg *common.Payloads) (*work, error) {
	few := func(in *wire.PlanInput) { in.Batches = min(in.Batches, v.pages) }
	switch name {
	case "Plan":
		return decoded(name, arg, few, (*activities.Activities).Plan)
	case "PlanRedrive":
		return decoded(name, arg, func(in *wire.PlanRedriveInput) { few(&in.PlanInput) }, (*activities.Activities).PlanRedrive)
	case "Process":
		return v.processing(arg)
	case "PlanFeed":
		return decoded(name, arg, func(in *wire.PlanFeedInput) { in.Batches = min(in.Batches, v.pages) }, (*activities.Activities).PlanFeed)
	case "CommitFeed":
		return decoded(name, arg, nil, (*activities.Activities).CommitFeed)
	case "SalvageFeed":
		return decoded(name, arg, nil, (*activities.Activities).SalvageFeed)
	case "Commit":
		return decoded(name, arg, nil, (*activities.Activities).Commit)
	case "Finish":
		return decoded(name, arg, nil, (*activities.Activities).Finish)
	case "FinishRedrive":
		return decoded(name, arg, nil, (*activities.Activities).FinishRedrive)
	case "WriteFailures":
		return decoded(name, arg, nil, (*activities.Activities).WriteFailures)
	case "Served":
		return &work{name: name, do: func(context.Context, *activities.Activities) (any, error) { return wire.ServedResult{}, nil }}, nil
	}
	return nil, temporal.NewNonRetryableApplicationError("no activity "+name, "Unknown", nil)
}

// processing is one execution of a batch.
func (v *server) processing(arg *common.Payloads) (*work, error) {
	var given wire.ProcessInput
	of := &stageCalls{slow: v.pick(4, 8)}
	w, err := decoded("Process", arg, func(in *wire.ProcessInput) {
		in.Calls = wire.CallLimits{Attempts: 1, ItemAttempts: 1, Backoff: time.Nanosecond}
		in.Slice = 0
		if v.pick(8, 15) == 1 {
			in.Slice = 1 // it returns a rest after its first call
		}
		if in.Stage != nil {
			of.stage = in.Stage.Name
		}
		given = *in
	}, func(a *activities.Activities, ctx context.Context, in wire.ProcessInput) (wire.ProcessResult, error) {
		calls := *of
		return a.Process(context.WithValue(ctx, stageKey{}, &calls), in)
	})
	if err != nil {
		return nil, err
	}
	b := given.Batch
	w.name = fmt.Sprintf("Process %s %s", of.stage, b)
	w.narrowed = given.Take > 0
	w.away = v.bad(2, 3) == 1
	items := b.Count
	if given.Take > 0 {
		items = min(items, given.Take)
	}
	for i := range items {
		switch {
		case given.Verdict != nil, given.Stage != nil && given.Stage.Gather:
		case v.staged != nil && v.generation == 0 && v.staged.kills(of.stage, b.First+i), v.staged == nil && v.poisonous(b.First+i):
			w.deadly = true
		}
	}
	return w, nil
}

// accept takes note of a result that has reached the workflow.
func (v *server) accept(result any) {
	switch r := result.(type) {
	case wire.PlanResult:
		if r.Sources != "" {
			v.ref.Sources = r.Sources
		}
	case wire.PlanFeedResult:
		if r.Lost > 0 {
			v.lostItems = r.Lost
		}
	case wire.FinishResult:
		v.finished = r
	}
}
