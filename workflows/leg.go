package workflows

import (
	"errors"
	"fmt"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/sdk/workflow"
)

// LegInput is what one leg has to run.
type LegInput struct {
	Ref    activities.Ref `json:"ref"`
	Spec   job.Spec       `json:"spec"`
	Number int            `json:"number"` // from 1; 0 is the leg that runs inside the job
	// Page holds new batches (see [activities.DecodePage]). Tasks are batches that an earlier run of the
	// leg, or the leg inside the job, has left.
	Page     []byte    `json:"page,omitempty"`
	Tasks    []task    `json:"tasks,omitempty"`
	Base     int64     `json:"base"`               // batches planned before these
	Previous []string  `json:"previous,omitempty"` // manifests that this leg's manifest names
	Window   int       `json:"window"`             // places in the window to begin with
	Last     bool      `json:"last,omitempty"`     // no leg comes after it
	Sofar    LegResult `json:"so_far"`             // of the leg's earlier runs
	Version  int       `json:"version,omitempty"`  // see protocol.LogicVersion
	Limits   limits    `json:"limits,omitzero"`
	// SlowDowns is how many requests to slow down the job has heard of from this leg.
	SlowDowns int `json:"slow_downs,omitempty"`
	// Known is how many calls the workers that the job knows of make at once, News how often it has heard of others
	// from this leg.
	Known int64 `json:"known,omitempty"`
	News  int   `json:"news,omitempty"`
	// SpeedAwaited: the job waits for what the first batches show of the handler's speed.
	SpeedAwaited bool `json:"speed_awaited,omitempty"`
}

// LegResult is what a leg has done.
type LegResult struct {
	outcomes
	Manifests []string `json:"manifests"` // heads of the chain after this leg
	// Left is how many items the leg did not get to, because of a stop or of Error.
	Left   int64 `json:"left,omitempty"`
	Window int   `json:"window"` // places that it held at its end
}

// keptResult is what a leg has done in its runs so far, which no later run can lose.
type keptResult struct {
	Leg    int       `json:"leg"`
	Result LegResult `json:"result"`
}

// Leg runs one page of a job's batches, at most 600.
//
// A batch is an activity: 3 events, 270 bytes of input and 330 of result. Its end causes a workflow task,
// 3 further events, unless several ends share one: they do if they come faster than tasks are answered. So a
// batch has at most 6 events and, at 150 bytes each, 1.5 KB. With Commit (6 events, 100 bytes a batch), some
// 5 signals received and 10 sent (70 events), start and end, that is at most 3,700 events and 1 MB. If
// batches are repeated or return rests there are more: at 4,000 events the leg stops dispatching. What is
// in flight then, at most 600 batches, adds at most 6 events each: 7,600, a sixth of what a run may have. The leg
// commits, reports that to the job (3 events), so that it remains if the leg's workflow is ended later, continues as
// new with the tasks that are left (100 bytes each), and any number of repetitions continues
// there.
func Leg(ctx workflow.Context, in LegInput) (LegResult, error) {
	link := &parentLink{ctx: ctx, leg: in.Number}
	l, err := newLeg(ctx, in, link)
	if err != nil {
		return LegResult{}, err
	}
	link.describe = func() { workflow.SetCurrentDetails(ctx, l.details()) }
	if err := l.answerQueries(); err != nil {
		return LegResult{}, err
	}
	l.listen(ctx)
	l.run()
	if !l.full {
		l.reportFinal()
	}
	result := l.commit()
	if l.full && result.Error == nil && l.notice == nil {
		link.kept(keptResult{Leg: in.Number, Result: result})
	}
	l.drainControls()
	if !l.full || result.Error != nil || l.notice != nil {
		return result, nil
	}
	again := in
	again.Page, again.Tasks, again.Sofar = nil, l.takeLeft(), result
	again.Previous, again.Window = result.Manifests, l.window.places
	again.Limits, again.SlowDowns = l.rate.limits, l.rate.requests
	again.Known, again.News, again.SpeedAwaited = l.known, l.news, l.speedAwaited
	return LegResult{}, workflow.NewContinueAsNewError(ctx, Leg, again)
}

// leg is one run of a leg, in its own workflow or inside the job.
type leg struct {
	*dispatcher
	in       LegInput
	page     *pageSupply
	manifest *manifestRecorder
}

func newLeg(ctx workflow.Context, in LegInput, link jobLink) (*leg, error) {
	page, err := newPageSupply(in.Page, in.Base)
	if err != nil {
		return nil, fmt.Errorf("reading the page of leg %d: %w", in.Number, err)
	}
	manifest := newManifestRecorder(in)
	return &leg{dispatcher: newDispatcher(ctx, in, page, manifest, link), in: in, page: page, manifest: manifest}, nil
}

func (l *leg) answerQueries() error {
	progress := func() (job.Progress, error) { return l.progress(), nil }
	pending := func() ([]activities.CommitInput, error) {
		return []activities.CommitInput{l.manifest.pending()}, nil
	}
	if err := workflow.SetQueryHandler(l.ctx, protocol.QueryProgress, progress); err != nil {
		return fmt.Errorf("answering queries: %w", err)
	}
	if err := workflow.SetQueryHandler(l.ctx, protocol.QueryPending, pending); err != nil {
		return fmt.Errorf("answering queries: %w", err)
	}
	return nil
}

// commit has what was accepted recorded, and returns what the leg has done.
func (l *leg) commit() LegResult {
	l.noteStragglers(l.in.Number)
	result := LegResult{outcomes: l.sofar}
	for _, t := range l.returned {
		result.Left += t.Count
	}
	for _, b := range l.page.batches {
		result.Left += b.Count
	}
	heads, err := l.manifest.commit(l.ctx)
	result.Manifests = heads
	if err != nil {
		if result.Error == nil {
			result.Error = execute.JobError(err)
		}
		result.Totals = l.in.Sofar.Totals
		result.Left += l.manifest.items()
		l.sofar = result.outcomes
	}
	l.receiveGrants() // what has arrived until the very end
	result.Window = l.window.places
	return result
}

var errNoJob = errors.New("the leg belongs to no job")

// parentLink reaches the job of a leg that has its own workflow.
type parentLink struct {
	ctx      workflow.Context
	leg      int
	describe func()
}

func (p *parentLink) signal(name string, argument any) workflow.Future {
	parent := workflow.GetInfo(p.ctx).ParentWorkflowExecution
	if parent == nil {
		return nil
	}
	return workflow.SignalExternalWorkflow(p.ctx, parent.ID, "", name, argument)
}

// kept returns once the signal was sent: the end of the run would drop it.
func (p *parentLink) kept(r keptResult) {
	if sent := p.signal(signalKept, r); sent != nil {
		_ = sent.Get(p.ctx, nil) // if there is no job any more nobody needs it
	}
}

func (p *parentLink) failed(err *job.Error)      { p.signal(signalFail, *err) }
func (p *parentLink) slowDown(r slowDownRequest) { p.signal(signalSlow, r) }
func (p *parentLink) counted(c counts)           { p.signal(signalCounts, c) }
func (p *parentLink) heard(n poolNews)           { p.signal(signalPool, n) }
func (p *parentLink) batchEnded()                { p.describe() }

func (p *parentLink) handBack(places int) workflow.Future {
	if sent := p.signal(signalPlaces, placesBack{Leg: p.leg, Places: places}); sent != nil {
		return sent
	}
	future, settable := workflow.NewFuture(p.ctx)
	settable.SetError(errNoJob)
	return future
}
