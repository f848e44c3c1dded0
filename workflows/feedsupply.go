package workflows

import (
	"time"

	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/intake"
	"go.temporal.io/sdk/workflow"
)

const (
	// mostBatchItems and mostBatchBytes bound a feed's batch: its items travel in the input of an activity.
	mostBatchItems = 1000
	mostBatchBytes = 256 << 10
	// mostWantedBytes is how many bytes of results a batch should have at most if clients want them: they are returned by the
	// activity itself then (see feeds.MaxInline). Its items are bounded by what results of other batches had, per byte of items.
	mostWantedBytes = 48 << 10
	// worthwhile is how long a batch should run at least if it can: a batch costs server and worker some milliseconds.
	worthwhile = 20 * time.Millisecond
	// lookAroundEvery is how often at most a batch is put in the pool's queue rather than handed to this worker: others take it
	// from there, and are known then.
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
func (s *feedSupply) Next() (dispatch.Task, bool) {
	if !s.ready() {
		return dispatch.Task{}, false
	}
	now := workflow.Now(s.ctx)
	_, since := s.intake.Waiting()
	wanted := s.growth.before(mostWantedBytes)
	if crowded(s.ctx) {
		wanted = mostBatchBytes
	}
	b, ok := s.intake.Take(intake.Limit{Items: s.size(), Bytes: mostBatchBytes, Wanted: wanted}, now)
	if !ok {
		return dispatch.Task{}, false
	}
	s.waited = since.Before(now)
	s.number++
	return dispatch.Task{Batch: b, Number: s.number}, true
}

// peek is that of firstSupply: all items of a feed begin with the first step.
func (s *feedSupply) peek() (protocol.Batch, bool) { return protocol.Batch{}, s.ready() }

// count is that of firstSupply.
func (s *feedSupply) count(yield func(b protocol.Batch, batches int)) {
	yield(protocol.Batch{}, s.Waiting())
}

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
	case s.spec.BatchWait == 0, s.intake.Shut():
		return true
	case items >= s.full():
		return true
	}
	return !workflow.Now(s.ctx).Before(since.Add(s.spec.BatchWait))
}

// due is when the batch under way has waited for long enough; zero: nothing waits for that.
func (s *feedSupply) due() time.Time {
	items, since := s.intake.Waiting()
	if items == 0 || s.ready() {
		return time.Time{}
	}
	return since.Add(s.spec.BatchWait)
}

// hold has the dispatcher look again when the batch under way has waited for long enough. It belongs to a coroutine of its
// own, and has one timer at a time.
func (s *feedSupply) hold(ctx workflow.Context) {
	for {
		_ = workflow.Await(ctx, func() bool { return !s.due().IsZero() })
		_ = workflow.NewTimer(ctx, s.due().Sub(workflow.Now(ctx))).Get(ctx, nil)
		s.dispatcher.Wake()
		_ = workflow.Await(ctx, func() bool { return s.due().IsZero() || s.due().After(workflow.Now(ctx)) })
	}
}

// full is how many items a full batch has.
func (s *feedSupply) full() int {
	if n := s.spec.BatchItems; n > 0 {
		return int(min(n, mostBatchItems))
	}
	return mostBatchItems
}

// size is how many items the next batch gets at most. If that is automatic, those that wait are shared by the free places, as
// long as a batch of them is worth its cost.
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

// lookAround reports whether the batch that is dispatched should be open to other workers: its items have waited for a place, so
// there is work for more.
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

// before is how many bytes of items become so many bytes of results. As long as nothing is known, it is as many.
func (g *growth) before(results int64) int64 {
	if g.items == 0 {
		return results
	}
	return results * g.items / max(1, g.results)
}
