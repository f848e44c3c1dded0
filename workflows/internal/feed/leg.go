package feed

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/intake"
	"github.com/stint-run/stint/workflows/internal/pages"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// SealUpdates is how many exchanges a leg takes before it is sealed; tests set another number.
var SealUpdates = 1500

const (
	// A leg is also sealed after so many events or bytes of history. Temporal allows 2,000 exchanges, 51,200 events and
	// 50 MB.
	SealEvents = 3000
	SealBytes  = 10 << 20
	// resultCopies is how often a result comes into the history, and once more for what is not counted: see [RunLeg].
	resultCopies = 4
	// StoreBytes is the size of history from which on results of batches are written to the store.
	StoreBytes = 20 << 20
	// feedEvents is the length of history at which a sealed leg gives up what it cannot get done.
	feedEvents = 40_000
	// BusyUpdates is how many exchanges a leg takes that has no successor yet, busyEvents and busyBytes are how long
	// its history is then.
	BusyUpdates = 1900
	busyEvents  = 30_000
	busyBytes   = 30 << 20
)

// checkFeed returns an error if the job is no feed, or no leg of one can begin so.
func checkFeed(in wire.FeedLegInput) error {
	o := in.Opening
	switch {
	case in.Spec.Feed == nil:
		return errors.New("a leg of a feed: the job is none")
	case o == nil:
		return nil
	}
	return errors.Join(coordinate.Count("ordinal of the first item", o.First), coordinate.Count("session", o.Session), coordinate.Count("unfinished items", int64(o.Unfinished)),
		coordinate.Count("bytes of unfinished items", o.Bytes), coordinate.Count("batches", o.Batches))
}

// RunLeg is one leg of a feed. It accepts items in updates, runs them in batches, and returns their results in the
// answers of updates; results are committed every ten seconds, or every megabyte. It is sealed when its history is
// long: then it finishes what it has, while its successor takes new items. It does not continue as new, because the
// server knows repeated updates only within a run.
//
// An exchange is at most 6 events: two of its own, three of a workflow task, and one of a timer now and then. A batch
// is 6 as in [Leg], and a commit 8 with its timer. So a leg is sealed at 1,500 exchanges, or 3,000 events; the items
// that it has then, at most the feed's capacity, are finished with at most 6 events for each batch: 100,000 of one item
// would be 600,000, so a batch then has at least a thousandth of them (see feedSupply), 6,000 events; in a pipeline of
// n steps n thousandths. What is repeated after that has 30,000 events left, a month of outages at a probe a minute;
// then the leg fails, and the job can be resumed.
//
// In bytes: a leg is sealed at 10 MB, of which its unfinished items are a part. They are in its history once more, with
// their batches, and their results three times: with the batch, with the answer, and with a commit. If results as large
// as they are would make it 20 MB long it is sealed from 5 MB on. Results may be of any size, so that from 20 MB on
// they go to the store, and the history has 300 bytes of each batch. What batches in flight may still return then are
// 64 KB each, three times. So a leg has at most 20 + 10 MB, and 20 for a hundred slots: Temporal's 50, if each of them
// is as large as it can be. In a pipeline items are given to each step: a leg is sealed when they would make it 20 MB
// long, and takes no more that would make it 30 MB (see owed), and parts between steps have 10 MB (see inlineBytes).
// Nothing begins from 40 MB on (see dispatch.MaxBytes).
//
// At its full rate, of 20,000 items of 100 bytes a second in lists of 100, a leg lasts for a second, and a run of the
// job for a minute and more. In a year that are 6·10^11 ordinals, 3·10^7 legs and 5·10^5 runs of the job, which follow
// one another at a rate that Temporal allows (one a second); no leg and no run has more of anything than the first
// ones.
func RunLeg(ctx workflow.Context, in wire.FeedLegInput) (wire.LegResult, error) {
	if err := coordinate.Refused(errors.Join(coordinate.CheckLeg(in.Spec, in.LegState), checkFeed(in))); err != nil {
		return wire.LegResult{}, err
	}
	// The job's end cancels the leg. If it has only continued as new, nothing follows from that.
	canceled := ctx
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	l := newFeedLeg(ctx, in)
	if in.Opening != nil { // before it answers: those that have come already are answered at once
		l.Open(*in.Opening)
	}
	if err := l.Answer(); err != nil {
		return wire.LegResult{}, err
	}
	l.listen(canceled)
	l.Listen()
	workflow.Go(ctx, l.commits.run)
	workflow.Go(ctx, l.watchStalls)
	if in.Spec.Feed.BatchWait > 0 {
		workflow.Go(ctx, l.supply.hold)
	}
	l.Run(ctx)
	if l.orphaned {
		return wire.LegResult{}, temporal.NewCanceledError("the job has ended")
	}
	result := l.conclude()
	l.linger()
	return result, nil
}

// feedLeg is one leg of a feed.
type feedLeg struct {
	*dispatch.Dispatcher
	ctx     workflow.Context
	in      wire.FeedLegInput
	link    *dispatch.ParentLink
	intake  *intake.Intake
	supply  *feedSupply
	commits *feedCommits
	flow    *pages.Flow // between the stages of a pipeline; nil: the feed has none
	waiters waiters
	load    *execute.TaskLoad
	bar     workflow.ReceiveChannel // of wire.SignalBar, halt of wire.SignalHalt: a validator may not ask for them
	halt    workflow.ReceiveChannel
	fixed   int // see fixedSize

	successor int        // that stands by; 0: none yet
	freed     wire.Freed // as last reported to the job
	updates   int
	concluded bool
	orphaned  bool        // the job has ended: what is not committed is asked for by the one that continues it
	disowned  bool        // another run of the job needs the leg's workflow ID
	touched   time.Time   // when a client was here last
	stalled   time.Time   // nothing has finished since then, for long; zero: it is not so
	counted   wire.Counts // outcomes of the present session's items
}

func newFeedLeg(ctx workflow.Context, in wire.FeedLegInput) *feedLeg {
	l := &feedLeg{ctx: ctx, in: in, load: execute.NewTaskLoad(ctx)}
	l.bar, l.halt = workflow.GetSignalChannel(ctx, wire.SignalBar), workflow.GetSignalChannel(ctx, wire.SignalHalt)
	l.intake = intake.New(intake.Limits{Capacity: in.Spec.Feed.Capacity, Bytes: in.Spec.Feed.CapacityBytes, Keep: in.Spec.Feed.Keep})
	l.supply = &feedSupply{ctx: ctx, spec: in.Spec, intake: l.intake}
	l.link = dispatch.NewParentLink(ctx, in.Ref.Run, in.Number, func() { l.free(); l.describe() })
	l.commits = &feedCommits{leg: l, heads: in.Previous}
	c := dispatch.Config{
		Spec: in.Spec, State: in.LegState, Supply: l.supply, Recorder: l.commits, Process: l.Process, Link: l.link, MaxEvents: feedEvents, Tally: l.tally,
	}
	if len(in.Spec.Stages) > 0 {
		l.flow = pages.NewFlow(in.Ref, in.Spec, l.supply, l.commits)
		l.supply.steps = len(l.flow.Steps)
		l.flow.Configure(&c)
	}
	l.fixed = FixedSize(in, pipeline.Compile(in.Spec.Stages))
	l.Dispatcher = dispatch.New(ctx, c)
	l.supply.dispatcher = l.Dispatcher
	return l
}

// Open has the leg take items.
func (l *feedLeg) Open(o wire.FeedOpening) {
	l.intake.Open(o.Opening)
	l.intake.Moved(workflow.Now(l.ctx))
	l.supply.number = o.Batches
	l.describe()
}

// Process executes a batch with its items.
func (l *feedLeg) Process(ctx workflow.Context, in wire.ProcessInput) workflow.Future {
	in.Ref, in.Items = l.in.Ref, l.intake.Data(in.Batch)
	in.Format, in.MaxItem = l.in.Spec.Format, l.in.Spec.MaxItem
	size := InputSize(&in, l.fixed)
	in.Stored, in.Inline = crowded(ctx), l.inline(in.Batch, size)
	options := workflow.GetActivityOptions(ctx)
	options.DisableEagerExecution = l.supply.lookAround(workflow.Now(ctx))
	ctx = workflow.WithActivityOptions(ctx, options)
	if l.load.Take(size) {
		return l.execute(ctx, in)
	}
	future, settable := workflow.NewFuture(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := l.load.Await(ctx, func() int { return size }); err != nil {
			settable.SetError(err)
			return
		}
		settable.Chain(l.execute(ctx, in))
	})
	return future
}

func (l *feedLeg) execute(ctx workflow.Context, in wire.ProcessInput) workflow.Future {
	if l.flow != nil {
		return l.flow.Process(ctx, in)
	}
	return execute.Process(ctx, in)
}

// crowded reports that a leg's history is so large that it takes no more results.
func crowded(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetCurrentHistorySize() >= StoreBytes
}

// free reports capacity that the leg has freed since it was sealed.
func (l *feedLeg) free() {
	if total := l.intake.Freed(); total != l.freed {
		l.freed = total
		l.link.Signal(wire.SignalFreed, wire.FreedNotice{Leg: l.in.Number, Total: total})
	}
}

// sealIfLong seals the leg if its history is long, and its successor stands by.
func (l *feedLeg) sealIfLong() {
	info := workflow.GetInfo(l.ctx)
	size := info.GetCurrentHistorySize()
	ahead := size + l.owed()
	results := resultCopies * text.Base64Size(int(l.intake.Bytes())) // if they are as large as the items
	long := l.updates >= SealUpdates || info.GetCurrentHistoryLength() >= SealEvents || size >= SealBytes || ahead >= StoreBytes ||
		size >= SealBytes/2 && ahead+results >= StoreBytes
	if !long || l.successor == 0 || !l.intake.IsOpen() {
		return
	}
	opening := wire.FeedOpening{Opening: l.intake.Seal(l.successor), Batches: l.supply.number}
	// If the successor has ended, so has the feed.
	l.link.Send(wire.LegID(l.in.Spec.Name, l.successor), "", wire.SignalOpen, opening)
	l.link.Signal(wire.SignalSealed, wire.SealedNotice{Leg: l.in.Number, Next: l.intake.Next()})
	l.Wake()
}

// listen has the leg react to the signals of a feed, and to the end of its job.
func (l *feedLeg) listen(canceled workflow.Context) {
	receive(l, wire.SignalOpen, l.Open)
	receive(l, wire.SignalSuccessor, func(number int) { l.successor = number })
	receive(l, wire.SignalAllFreed, l.freedBefore)
	receive(l, wire.SignalSession, func(session int64) { l.beginSession(session) })
	resized := 0
	receive(l, wire.SignalResize, func(r wire.FeedResize) {
		if r.Number > resized {
			resized, l.supply.spec.BatchItems = r.Number, r.Items
		}
	})
	receive(l, wire.SignalClose, func(any) { l.intake.Close() })
	// That it is delivered is the answer. An idle leg gets nothing else, so the length of its history is checked here,
	// too.
	receive(l, wire.SignalAlive, func(any) { l.sealIfLong() })
	receive(l, wire.SignalBar, func(any) { l.intake.Bar() })
	receive(l, wire.SignalDisowned, l.disown)
	workflow.Go(canceled, func(ctx workflow.Context) {
		ctx.Done().Receive(ctx, nil)
		ctx, _ = workflow.NewDisconnectedContext(ctx)
		l.checkJob(ctx)
	})
}

// receive calls fn for each signal of the name, and has the leg look again.
func receive[T any](l *feedLeg, name string, fn func(T)) {
	workflow.Go(l.ctx, func(ctx workflow.Context) {
		for {
			var value T
			workflow.GetSignalChannel(ctx, name).Receive(ctx, &value)
			fn(value)
			l.free()
			l.Wake()
		}
	})
}

// freedBefore takes note of what all sealed legs have freed. One that has been sealed itself has no use for that.
func (l *feedLeg) freedBefore(total wire.Freed) {
	if l.intake.Free(total) {
		l.intake.Moved(workflow.Now(l.ctx))
	}
}

// checkJob ends the leg at once if its job has ended, as Temporal would have ended it.
func (l *feedLeg) checkJob(ctx workflow.Context) {
	if sent := l.link.Signal(wire.SignalAlive, nil); sent != nil && sent.Get(ctx, nil) == nil {
		return // if that is another run of the job, it says so
	}
	l.orphan()
}

// disown ends the leg if a run of the job that is not its own says so: that needs its workflow ID, so results wait for
// clients no longer. What is meant for a leg that had the ID before, and has ended, may come late.
func (l *feedLeg) disown(by string) {
	if by == l.in.Ref.Run {
		return
	}
	l.disowned = true
	l.orphan()
}

// orphan ends the leg without a report: its job has ended.
func (l *feedLeg) orphan() {
	l.orphaned = true
	l.intake.End()
	l.Abandon()
}

// conclude commits what the leg has come to, and reports it to the job.
func (l *feedLeg) conclude() wire.LegResult {
	if l.Full() {
		l.Fail(&job.Error{Type: job.ErrorExhausted, Message: fmt.Sprintf(
			"leg %d could not finish its items within %s events and %d MiB of history: resume the job when the reason is gone; the last one: %s",
			l.in.Number, text.Thousands(feedEvents), dispatch.MaxBytes>>20, l.Progress().LastFailure)})
	}
	l.intake.Close()
	if l.Halted() {
		l.intake.End()
	}
	l.NoteStragglers()
	l.ReportFinal()
	err := l.commits.Finish(l.ctx)
	if err != nil {
		l.Lose(err)
	}
	result := wire.LegResult{
		LegOutcomes: l.Result(), Manifests: l.commits.heads, Left: int64(l.intake.Left()),
		Accepted: l.intake.Next(), Discarded: l.intake.State(l.in.Number, workflow.Now(l.ctx)).Discarded, Counted: l.tally(), Freed: l.intake.Freed(), Unsaved: err != nil,
	}
	l.concluded = true
	l.link.Signal(wire.SignalEnded, wire.KeptResult{Leg: l.in.Number, Result: result})
	l.describe()
	return result
}

// linger keeps the leg while clients have results to take, and no other run of the job needs its workflow ID.
func (l *feedLeg) linger() {
	ctx := l.ctx
	for l.intake.Unclaimed() && !l.Halted() && !l.disowned {
		wait := l.in.Spec.Feed.Keep - workflow.Now(ctx).Sub(l.touched)
		if wait <= 0 {
			break
		}
		_, _ = workflow.AwaitWithTimeout(ctx, wait, func() bool { return !l.intake.Unclaimed() || l.disowned })
	}
	_ = workflow.Await(ctx, func() bool { return l.disowned || workflow.AllHandlersFinished(ctx) && l.link.Empty() })
}

// describe keeps the leg's state where people who look at the workflow find it.
func (l *feedLeg) describe() { workflow.SetCurrentDetails(l.ctx, l.details()) }

func (l *feedLeg) details() string {
	s := l.intake.State(l.in.Number, workflow.Now(l.ctx))
	state := "stands by"
	switch {
	case l.concluded:
		state = "done"
	case s.Open:
		state = "takes items"
	case l.intake.Opened():
		state = "sealed"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** · session %d · %s items accepted, %s of %s items and %s of %s bytes unfinished · %s wait for a batch",
		state, s.Session, text.Thousands(s.Accepted), text.Thousands(int64(s.Backlog)), text.Thousands(int64(s.Capacity)),
		text.Thousands(s.BacklogBytes), text.Thousands(s.CapacityBytes), text.Thousands(int64(s.Waiting)))
	if s.Left > 0 {
		fmt.Fprintf(&b, " · in queue %v on average, %v at most", shortTime(s.Queued/time.Duration(s.Left)), shortTime(s.QueuedMax))
	}
	if since := l.intake.OldestSince(); !since.IsZero() {
		fmt.Fprintf(&b, " · the oldest unfinished item since %s UTC", since.UTC().Format(time.TimeOnly))
	}
	if !l.stalled.IsZero() {
		fmt.Fprintf(&b, " · **stalled**: nothing has finished since %s UTC", l.stalled.UTC().Format(time.TimeOnly))
	}
	if s.Unclaimed > 0 {
		fmt.Fprintf(&b, " · %s results not taken by their clients", text.Thousands(int64(s.Unclaimed)))
	}
	return b.String() + "\n\n" + l.Details()
}

// shortTime rounds a time for people.
func shortTime(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
