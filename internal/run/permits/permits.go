// Package permits bounds how many batches a worker takes from its queue.
package permits

import (
	"context"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	sdkworker "go.temporal.io/sdk/worker"
)

// Permits says when a worker asks for another batch: when its slots can use one. A batch is in a slot for as long as it
// makes calls. While its part goes to the disk and its answer to the server the next one already runs; as many batches
// as the worker makes calls at once can be that far at a time.
type Permits struct {
	Gather Gather
	most   int        // calls at once
	wanted func() int // batches that the slots can use more

	mu      sync.Mutex
	wake    chan struct{} // closed when more may be wanted; nil: nobody waits
	shut    bool          // nobody gets a permit
	eager   int           // permits of batches that are about to start eagerly
	batches int           // that have come for permits, and have not ended
	coming  int           // those of them that are in no slot yet
	vacated int           // batches that have left their slots, and have not ended
	settled int           // that only wait to be reported
}

// New returns the permits of a worker that makes so many calls at once. wanted is how many batches its slots can use,
// beside those that are in them; it may take the slots' locks.
func New(most int, wanted func() int) *Permits { return &Permits{most: most, wanted: wanted} }

// Shut has nobody get a permit until Open is called.
func (s *Permits) Shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
}

// Open ends what Shut has begun.
func (s *Permits) Open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = false
	s.look()
}

// Wake looks again whether the slots want batches.
func (s *Permits) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
}

// look wakes those who wait for a permit.
func (s *Permits) look() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// Admitted notes that a batch is in a slot. It may have come without a permit.
func (s *Permits) Admitted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coming = max(0, s.coming-1)
}

// Vacate notes that a batch has left its slot.
func (s *Permits) Vacate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vacated++
	s.look()
}

// Settle notes that a batch which has left its slot has only to be reported: another one may take its place
// among those that have. It returns false if too many wait to be reported.
func (s *Permits) Settle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vacated == 0 || s.settled == gathered {
		return false
	}
	s.vacated--
	s.settled++
	s.look()
	return true
}

// Queue has the permits of one of the worker's task queues. A poll of each may wait for the same slot, since nobody knows
// to which queue the next batch comes; the batch that finds the slot taken waits for a place, or goes back.
type Queue struct {
	*Permits
	polls int // permits that no batch has come for, with polls of this queue; see Permits.mu
}

// Queue returns the permits of a further task queue.
func (s *Permits) Queue() *Queue { return &Queue{Permits: s} }

// try takes a permit. If there is none it returns a channel that is closed when there may be one.
func (s *Queue) try() (ok bool, wake <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shut && s.polls+s.batches-s.settled < 2*s.most && s.polls+s.eager+s.coming < s.wanted() {
		s.polls++
		return true, nil
	}
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return false, s.wake
}

// ReserveSlot waits for a permit.
func (s *Queue) ReserveSlot(ctx context.Context, _ sdkworker.SlotReservationInfo) (*sdkworker.SlotPermit, error) {
	for {
		ok, wake := s.try()
		if ok {
			return &sdkworker.SlotPermit{UserData: s}, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// TryReserveSlot takes a permit, if there is one, for a batch that this worker's own workflow is about to dispatch (it
// starts eagerly). An idle worker's permits are with its polls: such a batch needs none of them, since it is there at
// once.
func (s *Permits) TryReserveSlot(sdkworker.SlotReservationInfo) *sdkworker.SlotPermit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut || s.eager+s.batches-s.settled >= 2*s.most || s.eager+s.coming >= s.wanted() {
		return nil
	}
	s.eager++
	return &sdkworker.SlotPermit{UserData: reserved{}}
}

// reserved marks a permit of a batch that is to start eagerly.
type reserved struct{}

// used marks a permit that a batch has come for.
type used struct{}

// MarkSlotUsed notes that a batch has come for the permit.
func (s *Permits) MarkSlotUsed(info sdkworker.SlotMarkUsedInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreserve(info.Permit())
	info.Permit().UserData = used{}
	s.batches++
	s.coming++
}

// unreserve takes back a permit that no batch has come for, or which one has come for now.
func (s *Permits) unreserve(p *sdkworker.SlotPermit) {
	switch of := p.UserData.(type) {
	case reserved:
		s.eager--
	case *Queue:
		of.polls--
	}
}

// ReleaseSlot takes back the permit of a batch that has ended, or one that no batch came for. Permits are
// interchangeable: a batch that ends without having been in a slot counts as one that has left its own, if there is
// one.
func (s *Permits) ReleaseSlot(info sdkworker.SlotReleaseInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if info.Permit().UserData != (used{}) {
		s.unreserve(info.Permit())
		s.look()
		return
	}
	s.batches--
	switch {
	case s.settled > 0:
		s.settled--
	case s.vacated > 0:
		s.vacated--
	default:
		s.coming = max(0, s.coming-1)
	}
	s.look()
}

// MaxSlots returns the most batches that the worker has at a time.
func (s *Permits) MaxSlots() int { return 2*s.most + gathered }

// tuner is the SDK's own, but for the slots of batches.
type tuner struct {
	sdkworker.WorkerTuner
	slots *Queue
}

// NewTuner returns the tuner of a worker of one task queue.
func NewTuner(s *Queue) (sdkworker.WorkerTuner, error) {
	others, err := sdkworker.NewFixedSizeTuner(sdkworker.FixedSizeTunerOptions{NumActivitySlots: s.most})
	return tuner{others, s}, err
}

// GetActivityTaskSlotSupplier returns the slots.
func (t tuner) GetActivityTaskSlotSupplier() sdkworker.SlotSupplier { return t.slots }

const (
	// gatherTick is the longest that a finished batch waits for others to be reported together with it.
	gatherTick = 20 * time.Millisecond
	// gathered is the most batches that wait.
	gathered = 64
)

// Gather has batches that finish shortly after each other reported together. Every report may cost a
// workflow task, which is a third of what a small batch costs the server; reports that come together share one.
// A batch waits only if another one has finished within the last tick.
type Gather struct {
	mu   sync.Mutex
	last time.Time     // when a batch finished
	tick chan struct{} // closed at the end of the tick; nil: none has begun
}

// Wait returns when the batch should be reported: at once, at the end of the tick, or when ctx is done.
func (g *Gather) Wait(ctx context.Context) {
	tick := g.join(time.Now())
	if tick == nil {
		return
	}
	select {
	case <-tick:
	case <-ctx.Done():
	}
}

func (g *Gather) join(now time.Time) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	soon := now.Sub(g.last) <= gatherTick
	g.last = now
	if g.tick == nil && soon {
		tick := make(chan struct{})
		g.tick = tick
		trap.After(gatherTick, "ending a tick", nil, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.tick = nil
			close(tick)
		})
	}
	return g.tick
}
