package feed

import (
	"encoding/json"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/intake"
	"go.temporal.io/sdk/workflow"
)

const (
	// mostBatchItems and mostBatchBytes bound a feed's batch: its items travel in the input of an activity.
	mostBatchItems = 1000
	mostBatchBytes = 256 << 10
	// mostWantedBytes is how many bytes of results a batch should have at most if clients want them: they are returned
	// by the activity itself then (see wire.MaxInline). Its items are bounded by what results of other batches had, per
	// byte of items.
	mostWantedBytes = 48 << 10
	// worthwhile is how long a batch should run at least if it can: a batch costs server and worker some milliseconds.
	worthwhile = 20 * time.Millisecond
	// lookAroundEvery is how often at most a batch is put in the pool's queue rather than handed to this worker: others
	// take it from there, and are known then.
	lookAroundEvery = time.Second
)

// feedSupply makes batches of the items that have gathered.
type feedSupply struct {
	ctx        workflow.Context
	spec       job.Spec
	intake     *intake.Intake
	dispatcher *dispatch.Dispatcher
	steps      int       // that each batch goes through; 0: one
	number     int64     // of the last batch
	waited     bool      // its first item has waited for a place
	looked     time.Time // around, the last time
	growth     growth
}

// Next is that of [dispatch.Supply].
func (s *feedSupply) Next() (wire.Task, bool) {
	if !s.ready() {
		return wire.Task{}, false
	}
	now := workflow.Now(s.ctx)
	_, since := s.intake.Waiting()
	wanted := s.growth.before(mostWantedBytes)
	if crowded(s.ctx) {
		wanted = mostBatchBytes
	}
	b, ok := s.intake.Take(intake.Limit{Items: s.size(), Bytes: mostBatchBytes, Wanted: wanted}, now)
	if !ok {
		return wire.Task{}, false
	}
	s.waited = since.Before(now)
	s.number++
	return wire.Task{Batch: b, Number: s.number}, true
}

// Peek is that of firstSupply: all items of a feed begin with the first step.
func (s *feedSupply) Peek() (wire.Batch, bool) { return wire.Batch{}, s.ready() }

// Count is that of firstSupply.
func (s *feedSupply) Count(yield func(b wire.Batch, batches int)) { yield(wire.Batch{}, s.Waiting()) }

// Waiting is that of [dispatch.Supply].
func (s *feedSupply) Waiting() int {
	if !s.ready() {
		return 0
	}
	items, _ := s.intake.Waiting()
	size := s.size()
	return (items + size - 1) / size
}

// Ended is that of [dispatch.Supply].
func (s *feedSupply) Ended() bool {
	items, _ := s.intake.Waiting()
	return items == 0 && s.intake.Shut()
}

// ready reports whether a batch may leave: it is full, or has waited for long enough since its first item (B2).
func (s *feedSupply) ready() bool {
	items, since := s.intake.Waiting()
	switch {
	case items == 0:
		return false
	case s.spec.Feed.BatchWait == 0, s.intake.Shut():
		return true
	case items >= s.full():
		return true
	}
	return !workflow.Now(s.ctx).Before(since.Add(s.spec.Feed.BatchWait))
}

// due returns when the batch under way has waited for long enough; zero: nothing waits for that.
func (s *feedSupply) due() time.Time {
	items, since := s.intake.Waiting()
	if items == 0 || s.ready() {
		return time.Time{}
	}
	return since.Add(s.spec.Feed.BatchWait)
}

// hold has the dispatcher look again when the batch under way has waited for long enough. It belongs to a coroutine of
// its own, and has one timer at a time.
func (s *feedSupply) hold(ctx workflow.Context) {
	for {
		_ = workflow.Await(ctx, func() bool { return !s.due().IsZero() })
		_ = workflow.NewTimer(ctx, s.due().Sub(workflow.Now(ctx))).Get(ctx, nil)
		s.dispatcher.Wake()
		_ = workflow.Await(ctx, func() bool { return s.due().IsZero() || s.due().After(workflow.Now(ctx)) })
	}
}

// full returns how many items a full batch has.
func (s *feedSupply) full() int {
	if n := s.spec.BatchItems; n > 0 {
		return int(min(n, mostBatchItems))
	}
	return mostBatchItems
}

// size returns how many items the next batch gets at most. If that is automatic, those that wait are shared by the free
// places, as long as a batch of them is worth its cost.
func (s *feedSupply) size() int {
	if s.spec.BatchItems > 0 {
		return s.full()
	}
	items, _ := s.intake.Waiting()
	free := max(1, s.dispatcher.Free())
	share := (items + free - 1) / free
	worth := s.dispatcher.Sofar().Speed.Count(worthwhile)
	return min(max(share, int(min(worth, mostBatchItems)), items*max(1, s.steps)/1000, 1), mostBatchItems)
}

// lookAround reports whether the batch that is dispatched should be open to other workers: its items have waited for a
// place, so there is work for more.
func (s *feedSupply) lookAround(now time.Time) bool {
	if !s.waited || now.Sub(s.looked) < lookAroundEvery {
		return false
	}
	s.looked = now
	return true
}

// growth is how many bytes of results come of the bytes of items, lately.
type growth struct{ items, results int64 }

// recentBytes is over how many bytes growth looks back.
const recentBytes = 1 << 20

func (g *growth) add(items, results int64) {
	g.items += items
	g.results += results
	if g.items+g.results > recentBytes {
		g.items /= 2
		g.results /= 2
	}
}

// before returns how many bytes of items become so many bytes of results. As long as nothing is known, it is as many.
func (g *growth) before(results int64) int64 {
	if g.items == 0 {
		return results
	}
	return results * g.items / max(1, g.results)
}

// InputSize returns the most bytes that the input of an execution has. fixed are those of what all inputs of the leg
// have.
func InputSize(in *wire.ProcessInput, fixed int) int {
	size := fixed + in.Items.Size() + in.Batch.From.Size()
	if v := in.Verdict; v != nil {
		size += text.JSONSize(v.Kind) + text.JSONSize(v.Error.Type) + text.JSONSize(v.Error.Message) + text.JSONSize(v.Error.Stack)
	}
	return size
}

// FixedSize returns the most bytes that the inputs of a leg's executions have beside items, parts and verdicts.
func FixedSize(in wire.FeedLegInput, steps pipeline.Program) int {
	const numbers = 4 << 10
	stage := 0
	for i := range steps {
		stage = max(stage, jsonSize(&steps[i].Stage))
	}
	return numbers + stage + jsonSize(in.Ref) + text.JSONSize(in.Spec.Format) + text.JSONSize(in.Spec.OnError)
}

// jsonSize returns how many bytes a value has as JSON.
func jsonSize(v any) int {
	data, _ := json.Marshal(v) // what has none could not be sent, either
	return len(data)
}

const (
	// InlineBytes bounds what the parts between the steps of a leg's batches that are not in the store take in its
	// history: each is in the answer of its step, and in the inputs of the steps after it.
	InlineBytes = 10 << 20
	// leastInline is the least size of such a part for which it is worth not to be in the store.
	leastInline = 1 << 10
	// partBytes is what a part has in an input beside its lines, at most.
	partBytes = 4 << 10
)

// inline returns how many bytes of what a step writes may be in the inputs of later steps, if its own input has so many
// bytes: together with what this one has they must fit into an input, and all that run at a time into the history.
func (l *feedLeg) inline(b wire.Batch, size int) int {
	if !l.flow.PassesOn(b) || crowded(l.ctx) {
		return 0
	}
	share := (InlineBytes - l.flow.Inlined) / (l.flow.Copies(b) * max(1, l.Places()))
	most := min(share, wire.MaxCounted-size-partBytes) * 3 / 4 // in base64
	if most < leastInline {
		return 0
	}
	return min(most, wire.MaxInline)
}

// owed returns the most bytes of items that the leg has still to give to executions, if none is repeated.
func (l *feedLeg) owed() int { return text.Base64Size(int(l.intake.Bytes())) * max(1, l.supply.steps) }

// mostItem returns the most bytes of an exchange's items in a feed of so many steps: its history has them for each
// step.
func mostItem(steps int) int { return busyBytes * 3 / 4 / (max(1, steps) + 1) }
