package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/temporal/lookup"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// notReady reports whether a query has failed because the workflow cannot answer: it never completed a workflow task,
// or its last ones have failed. Whether it has ever run is in its history (givenInput.ran).
func notReady(err error) bool { return errors.As(err, new(*serviceerror.WorkflowNotReady)) }

// givenInput is what a job's run, or a leg, was started with, as far as a resumed job must keep it.
type givenInput struct {
	wire.JobInput
	// Of a leg.
	Ref      wire.Ref         `json:"ref"`
	Number   int              `json:"number"`
	Previous []string         `json:"previous"`
	Slot     *job.LoopSlot    `json:"slot"`
	Sofar    wire.LegOutcomes `json:"so_far"` // of its runs before

	first   string    // run ID of the first run
	started time.Time // the workflow
	ran     bool      // it has completed a workflow task
}

// given reads the input of a workflow's latest run from the first event of its history, and whether that run has done
// anything.
func (c *Client) given(ctx context.Context, id string) (givenInput, error) {
	var in givenInput
	events := c.temporal.GetWorkflowHistory(ctx, id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	first, err := events.Next()
	if err == nil {
		err = c.decodeFirst(first.GetWorkflowExecutionStartedEventAttributes().GetInput(), &in)
	}
	for err == nil && !in.ran && events.HasNext() {
		event, later := events.Next()
		in.ran, err = event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, later
	}
	if err != nil {
		return in, fmt.Errorf("reading how %s was started: %w", id, err)
	}
	in.first, in.started = first.GetWorkflowExecutionStartedEventAttributes().GetFirstExecutionRunId(), first.GetEventTime().AsTime()
	settle(&in.StartInput, id)
	return in, nil
}

// pending returns what the workflow would answer to the query for what is not committed: the manifests that a leg
// was to name.
func (in *givenInput) pending() []json.RawMessage {
	if len(in.Previous) == 0 {
		return nil
	}
	kept, err := json.Marshal(wire.CommitInput{Ref: in.Ref, Leg: in.Number, Previous: in.Previous})
	if err != nil {
		return nil // it was read as JSON
	}
	return []json.RawMessage{kept}
}

// progress returns what a leg would answer to the query for its progress.
func (in *givenInput) progress() job.Progress {
	p := job.Progress{Outcomes: in.Sofar.Outcomes}
	if in.Slot != nil {
		p.Loop = []job.LoopSlot{*in.Slot}
	}
	return p
}

// answer returns what the job would answer to the query for its report: as the runs before have left it, if there were
// any.
func (in *givenInput) answer() wire.Answer {
	if in.State != nil {
		return in.answerOf(in.State.Heads)
	}
	return in.answerOf(in.Resume)
}

// answerOf returns the answer with these heads of the manifest chain.
func (in *givenInput) answerOf(heads []string) wire.Answer {
	a := wire.Answer{Report: job.Report{
		Job: in.Spec.Name, Run: in.first, Pool: in.Spec.Pool, State: job.Running, Started: in.started, Store: in.Spec.Store,
		Manifests: heads, Settings: in.Spec.Settings(), Grace: in.Spec.Grace, Expiry: in.Spec.Expiry,
		Attempts: in.Spec.Attempts, Salvage: len(in.Salvage), Outcomes: job.Outcomes{Totals: job.Totals{Usage: in.Spent, LostUsage: in.Lost}, Versions: in.Versions, Stages: in.Spec.StageReports(), Life: in.Life},
	}}
	if in.State != nil {
		a.Report = in.State.Report
		a.Manifests = heads
		addLegs(&a, in.State.Carried)
	}
	kindOf(in.Spec, in.Redrive).answer(in, &a)
	return a
}

// addLegs adds the legs of a feed that the run was to continue with: they run, and the manifests that were given to
// them are no heads of the job's any more.
func addLegs(a *wire.Answer, legs []wire.CarriedLeg) {
	for _, leg := range legs {
		id := wire.LegID(a.Job, leg.Number)
		a.OpenLegs = append(a.OpenLegs, id)
		a.Manifests = slices.Concat(a.Manifests, leg.Sofar.Manifests)
		a.Planned = max(a.Planned, leg.Sofar.Accepted)
		if n := leg.Reported.Sofar; !n.At.IsZero() {
			a.Heard = append(a.Heard, wire.Heard{Leg: id, Counted: n})
		}
	}
}

// feed returns what a feed's job itself knows of the feed. It adds to the report what that has accepted.
func (in *givenInput) feed(r *job.Report) *job.FeedReport {
	f := &job.FeedReport{Session: 1, Capacity: in.Spec.Feed.Capacity, CapacityBytes: in.Spec.Feed.CapacityBytes}
	if in.State != nil && in.State.Work.Feed != nil {
		known := in.State.Work.Feed
		r.Planned = max(r.Planned, known.Accepted)
		f.Session, f.Segments, f.StalledSince, f.Lost, f.Gone = known.Session, known.Segments, known.Stalled, known.Lost, known.Gone
		f.Earlier = int(max(0, known.Earlier.Items-known.Earlier.Done))
	}
	f.Accepted = r.Planned
	return f
}

// slots returns where the slots of a loop stand. Those that an earlier run of the loop has left begin anew with their
// next ticks.
func (in *givenInput) slots() []job.LoopSlot {
	if in.State != nil && in.State.Work.Loop != nil {
		return in.State.Work.Loop.Slots
	}
	left := slices.Clone(in.Loop)
	for i := range left {
		left[i].Base = time.Time{}
	}
	return left
}

// takeNumbers replaces the answer's numbers by later ones.
func takeNumbers(a *wire.Answer, later job.Report) {
	if later.Done() <= a.Done() {
		return
	}
	a.OK, a.Failed, a.Planned, a.PlanDone = later.OK, later.Failed, later.Planned, later.PlanDone
	a.InputBytes, a.TotalBytes, a.AsOf = later.InputBytes, later.TotalBytes, later.AsOf
}

// silenced reports whether a leg that has run answers no query, because its last workflow task has failed.
func (c *Client) silenced(ctx context.Context, leg string) bool {
	return notReady(lookup.Query(ctx, c.temporal, leg, "", wire.QueryProgress, new(job.Progress)))
}

// recall completes the report of a job that Temporal has ended if a workflow, the job's or that of a leg, answers no
// query: it never ran, or its last workflow task has failed. cause is the error of asking.
func (g *jobProgress) recall(ctx context.Context, cause error) error {
	c := g.run.client
	if g.job == nil {
		in, err := c.given(ctx, g.run.name)
		if err != nil {
			return err
		}
		answer := in.answer()
		if in.ran {
			if !kindOf(in.Spec, in.Redrive).files {
				return fmt.Errorf("%w (%w)", stuck(g.run.name, in.Spec.Store, in.first), cause)
			}
			left, err := c.remainsOf(ctx, g.run.name, in)
			if err != nil {
				return err
			}
			answer = in.answerOf(left.heads)
			answer.OpenLegs, answer.Salvage = left.legs, len(left.salvage)
			takeNumbers(&answer, g.report)
		}
		g.job, g.at = &answer, time.Now()
	}
	var others []string
	for _, leg := range g.job.OpenLegs {
		if _, ok := g.legs[leg]; ok {
			continue
		}
		in, err := c.given(ctx, leg)
		files := g.job.Feed == nil && g.job.Loop == nil
		if err != nil || in.ran && !(files && c.silenced(ctx, leg)) {
			others = append(others, leg)
			continue
		}
		g.legs[leg] = legProgress{Progress: in.progress(), at: time.Now()}
	}
	err := g.askLegs(ctx, others, g.named())
	if notReady(err) && (g.job.Feed != nil || g.job.Loop != nil) {
		err = fmt.Errorf("%w (%w)", stuck(g.run.name, g.job.Store, g.job.Run), err)
	}
	report := g.job.Report
	g.putTogether(&report)
	if report.Loop != nil && !report.State.Final() {
		g.run.addTicks(ctx, &report)
	}
	g.report = report
	return err
}

// maxEarlier bounds how many runs a job has the store swept of that it takes the place of, and attempts at a redrive.
// Of those before only runs without a manifest are left there.
const maxEarlier = 100

// EarlierRuns returns the runs that the next run of a stopped or failed job takes the place of: the one that report is
// of, and those before it. They may have left copies of inputs and parts in the store, also if no manifest names the
// run. Once the next run has completed they are removed, but for what its own manifests name. It is nil for feeds,
// loops and redrives.
func (c *Client) EarlierRuns(ctx context.Context, report job.Report) ([]string, error) {
	in, err := c.inputOf(ctx, report.Job)
	if err != nil {
		return nil, err
	}
	return earlierRuns(&in, report), nil
}

// earlierRuns returns the EarlierRuns of a job that was started with this input.
func earlierRuns(in *wire.StartInput, report job.Report) []string {
	if !kindOf(in.Spec, in.Redrive).replaces {
		return nil
	}
	runs := slices.Clone(in.Earlier)
	if report.Run != "" && !slices.Contains(runs, report.Run) { // without one it has done nothing
		runs = append(runs, report.Run)
	}
	return runs[max(0, len(runs)-maxEarlier):]
}

// RootRun returns the first of the runs that the next run of a stopped or failed job continues. A handler that names the
// item of a request names that run, so that a request whose answer was lost is known again. It is empty after a failure
// because nothing worked ([ErrorHopeless]): what has failed then is asked for anew.
func (c *Client) RootRun(ctx context.Context, report job.Report) (string, error) {
	in, err := c.inputOf(ctx, report.Job)
	if err != nil {
		return "", err
	}
	return rootRun(&in, report), nil
}

// rootRun returns the RootRun of a job that was started with this input.
func rootRun(in *wire.StartInput, report job.Report) string {
	if hopeless(report) && kindOf(in.Spec, in.Redrive).rerun {
		return ""
	}
	return cmp.Or(in.Root, report.Run)
}

// remains is what the history of a job's run, or of a leg, shows of its manifests.
type remains struct {
	heads   []string
	legs    []string          // that have not returned
	salvage []json.RawMessage // of the input, what has not been committed
}

// remainsOf reads the history of a workflow's latest run, which was started with this input.
func (c *Client) remainsOf(ctx context.Context, id string, in givenInput) (remains, error) {
	r := remains{heads: slices.Concat(in.Resume, in.Previous)}
	if in.State != nil {
		r.heads = slices.Clone(in.State.Heads)
	}
	r.salvage = in.Salvage
	if err := r.skipEmpty(); err != nil {
		return r, err
	}
	commits := map[int64]*history.HistoryEvent{} // that have been scheduled, by the number of the event
	events := c.temporal.GetWorkflowHistory(ctx, id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err == nil {
			err = r.take(c, event, commits)
		}
		if err != nil {
			return r, fmt.Errorf("reading what %s had committed: %w", id, err)
		}
	}
	return r, nil
}

// take takes note of one event.
func (r *remains) take(c *Client, event *history.HistoryEvent, commits map[int64]*history.HistoryEvent) error {
	var given struct {
		Previous []string `json:"previous"`
	}
	var done struct {
		Manifest  string   `json:"manifest"`  // of a commit
		Manifests []string `json:"manifests"` // of a leg
	}
	switch event.GetEventType() {
	case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		if event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == string(wire.ActivityCommit) {
			commits[event.GetEventId()] = event
		}
	case enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		completed := event.GetActivityTaskCompletedEventAttributes()
		commit := commits[completed.GetScheduledEventId()]
		if commit == nil {
			return nil
		}
		if err := c.decodeFirst(commit.GetActivityTaskScheduledEventAttributes().GetInput(), &given); err != nil {
			return err
		}
		if err := c.decodeFirst(completed.GetResult(), &done); err != nil {
			return err
		}
		r.replace(given.Previous, []string{done.Manifest})
		if len(r.salvage) > 0 { // it is committed before anything else, in order
			r.salvage = r.salvage[1:]
			return r.skipEmpty()
		}
	case enums.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		leg := event.GetStartChildWorkflowExecutionInitiatedEventAttributes()
		if err := c.decodeFirst(leg.GetInput(), &given); err != nil {
			return err
		}
		r.replace(given.Previous, nil) // the leg has them now
		r.legs = append(r.legs, leg.GetWorkflowId())
	case enums.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
		leg := event.GetChildWorkflowExecutionCompletedEventAttributes()
		if err := c.decodeFirst(leg.GetResult(), &done); err != nil {
			return err
		}
		r.replace(nil, done.Manifests)
		r.legs = slices.DeleteFunc(r.legs, func(id string) bool { return id == leg.GetWorkflowExecution().GetWorkflowId() })
	}
	return nil
}

// skipEmpty takes what needs no commit from the beginning of salvage: it only names manifests.
func (r *remains) skipEmpty() error {
	for len(r.salvage) > 0 {
		var next struct {
			Previous []string          `json:"previous"`
			Entries  []json.RawMessage `json:"entries"`
			Between  []json.RawMessage `json:"between"`
		}
		if err := json.Unmarshal(r.salvage[0], &next); err != nil {
			return fmt.Errorf("reading what the run was to commit: %w", err)
		}
		if len(next.Entries)+len(next.Between) > 0 {
			return nil
		}
		r.replace(nil, next.Previous)
		r.salvage = r.salvage[1:]
	}
	return nil
}

// replace takes heads out, and adds others.
func (r *remains) replace(old, added []string) {
	r.heads = slices.DeleteFunc(r.heads, func(head string) bool { return slices.Contains(old, head) })
	r.heads = append(r.heads, added...)
}

// StuckError reports that a feed or loop that Temporal has ended cannot say what it had not committed, because its last
// workflow task had failed. It cannot be resumed.
type StuckError struct {
	Name string
	// Parts is where the results are that it had committed: a path or URL that ends in "/". They stay there if the job
	// is started anew. Empty: it kept none, or that is not known.
	Parts string
}

func (e *StuckError) Error() string {
	kept := ""
	if e.Parts != "" {
		kept = "; the results that it had committed stay in " + e.Parts
	}
	return fmt.Sprintf("job %s cannot be resumed: its last workflow task, or that of a part of it, had failed when Temporal ended it, so nobody can read what it had not "+
		"committed%s; start it anew with StartOptions.Fresh", e.Name, kept)
}

// stuck returns the StuckError of a run of a job with this store.
func stuck(name, store, run string) *StuckError {
	e := &StuckError{Name: name}
	if store != "" && run != "" {
		if !location.IsPrefix(store) {
			store = location.Append(store, "/")
		}
		e.Parts = location.Append(store, run+"/parts/")
	}
	return e
}
