package pages

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
)

// RunLeg runs one page of a job's batches, at most 600.
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
func RunLeg(ctx workflow.Context, in wire.LegInput) (wire.LegResult, error) {
	if err := coordinate.Refused(coordinate.CheckLeg(in.Spec, in.LegState)); err != nil {
		return wire.LegResult{}, err
	}
	var l *leg
	link := dispatch.NewParentLink(ctx, in.Ref.Run, in.Number, func() { workflow.SetCurrentDetails(ctx, l.Details()) })
	l, err := newLeg(ctx, in, link)
	if err != nil {
		return wire.LegResult{}, err
	}
	if err := l.answerQueries(ctx); err != nil {
		return wire.LegResult{}, err
	}
	l.Listen()
	l.Run(ctx)
	if !l.Full() {
		l.ReportFinal()
	}
	result := l.commit(ctx)
	if l.Full() && !l.Halted() {
		link.Signal(wire.SignalKept, wire.KeptResult{Leg: in.Number, Result: result})
	}
	link.Flush()
	l.DrainSignals()
	if !l.Full() || l.Halted() {
		return result, nil
	}
	again := in
	again.Page, again.LegState, again.Sofar, again.Previous = nil, l.Handover(), result, result.Manifests
	return wire.LegResult{}, workflow.NewContinueAsNewError(ctx, wire.WorkflowLeg, again)
}

// leg is one run of a leg, in its own workflow or inside the job.
type leg struct {
	*dispatch.Dispatcher
	page     *PageSupply
	manifest *manifestRecorder
	flow     *Flow // between the stages of a pipeline; nil: the job has none
}

func newLeg(ctx workflow.Context, in wire.LegInput, link dispatch.Link) (*leg, error) {
	page, err := newPageSupply(in.Page, in.Base)
	if err != nil {
		return nil, fmt.Errorf("reading the page of leg %d: %w", in.Number, err)
	}
	manifest := &manifestRecorder{spec: in.Spec, in: wire.CommitInput{Ref: in.Ref, Leg: in.Number, Previous: in.Previous}}
	l := &leg{page: page, manifest: manifest}
	c := dispatch.Config{
		Spec: in.Spec, State: in.LegState, Sofar: in.Sofar.LegOutcomes, Supply: page, Recorder: l.manifest, Process: processIn(in.Ref), Link: link,
	}
	if len(in.Spec.Stages) > 0 {
		l.flow = NewFlow(in.Ref, in.Spec, page, l.manifest)
		l.flow.Configure(&c)
		c.Process = l.flow.Process
	}
	l.Dispatcher = dispatch.New(ctx, c)
	return l, nil
}

// processIn executes batches whose items and parts are where ref says.
func processIn(ref wire.Ref) func(workflow.Context, wire.ProcessInput) workflow.Future {
	return func(ctx workflow.Context, in wire.ProcessInput) workflow.Future {
		in.Ref = ref
		return execute.Process(ctx, in)
	}
}

func (l *leg) answerQueries(ctx workflow.Context) error {
	progress := func(executions []string) (job.Progress, error) { return l.ProgressWith(executions), nil }
	pending := func(offset *int) (any, error) {
		in := l.manifest.Pending()
		if offset == nil {
			return []wire.CommitInput{in}, nil
		}
		return wire.PendingPiece([]wire.CommitFeedInput{ofFeed(in)}, *offset) // a feed asks, whose earlier run has left the batches
	}
	return errors.Join(execute.Answer(ctx, wire.QueryProgress, progress), execute.Answer(ctx, wire.QueryPending, pending))
}

// commit has what was accepted recorded, and returns what the leg has done.
func (l *leg) commit(ctx workflow.Context) wire.LegResult {
	l.NoteStragglers()
	left := l.Returned() + l.page.items() + l.flow.items()
	if l.flow != nil && l.Halted() {
		l.manifest.in.Between = between(l.Handover().Tasks)
	}
	heads, err := l.manifest.commit(ctx)
	if err != nil {
		l.Lose(execute.JobError(err))
		left += l.manifest.items()
	}
	sofar := l.Result()
	if l.Halted() {
		sofar.Totals.Between = 0 // they are left
	}
	return wire.LegResult{LegOutcomes: sofar, Manifests: heads, Left: left}
}

// PageSupply supplies the batches of a page, in order.
type PageSupply struct {
	batches []wire.Batch
	number  int64 // of the next batch, from 1
	more    bool  // another page may follow: see extendInside
}

// newPageSupply reads a page whose first batch comes after so many others of the job.
func newPageSupply(page []byte, before int64) (*PageSupply, error) {
	batches, err := wire.DecodePage(page)
	if err != nil {
		return nil, err
	}
	return &PageSupply{batches: batches, number: before + 1}, nil
}

// Next is that of [dispatch.Supply].
func (s *PageSupply) Next() (wire.Task, bool) {
	if len(s.batches) == 0 {
		return wire.Task{}, false
	}
	t := wire.Task{Batch: s.batches[0], Number: s.number}
	s.batches = s.batches[1:]
	s.number++
	return t, true
}

// Peek returns the batch that Next would take out.
func (s *PageSupply) Peek() (wire.Batch, bool) {
	if len(s.batches) == 0 {
		return wire.Batch{}, false
	}
	return s.batches[0], true
}

// Count is that of firstSupply.
func (s *PageSupply) Count(yield func(b wire.Batch, batches int)) {
	for _, b := range s.batches {
		yield(b, 1)
	}
}

// Waiting is that of [dispatch.Supply].
func (s *PageSupply) Waiting() int { return len(s.batches) }

// Ended is that of [dispatch.Supply].
func (s *PageSupply) Ended() bool { return len(s.batches) == 0 && !s.more }

// items returns how many items are in the batches that have not been taken.
func (s *PageSupply) items() int64 {
	var n int64
	for _, b := range s.batches {
		n += b.Count
	}
	return n
}

// manifestRecorder keeps accepted parts until a commit writes them to a manifest.
type manifestRecorder struct {
	spec job.Spec
	in   wire.CommitInput
}

// Accept is that of [dispatch.Recorder].
func (r *manifestRecorder) Accept(_ wire.Task, result wire.ProcessResult) {
	r.in.Entries = append(r.in.Entries, result.Entry)
}

// Pending returns what has been accepted and not committed.
func (r *manifestRecorder) Pending() wire.CommitInput { return r.in }

// items returns how many items have been accepted.
func (r *manifestRecorder) items() int64 {
	var n int64
	for _, e := range r.in.Entries {
		n += e.Count
	}
	return n
}

// commit writes the manifest, and returns the heads of the manifest chain: those before if nothing has been
// accepted, or after an error. It continues after a stop and after a cancellation.
func (r *manifestRecorder) commit(ctx workflow.Context) (heads []string, err error) {
	if len(r.in.Entries) == 0 && len(r.in.Between) == 0 {
		return r.in.Previous, nil
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = execute.IOOptions(ctx, r.spec, "commit "+text.Count(len(r.in.Entries), "part"))
	committed, err := execute.IO(ctx, wire.ActivityCommit, r.in)
	if err != nil {
		return r.in.Previous, err
	}
	return []string{committed.Manifest}, nil
}

// ofFeed returns what a leg with batches of a feed has not committed, as that of a leg which takes items.
func ofFeed(in wire.CommitInput) wire.CommitFeedInput {
	out := wire.CommitFeedInput{Ref: in.Ref, Leg: in.Leg, Previous: in.Previous}
	for _, e := range in.Entries {
		out.Entries = append(out.Entries, wire.FeedEntry{Entry: e})
	}
	return out
}
