// Package permits bounds how many batches a worker takes from its queue.
package permits

import (
	"context"
	"sync"

	sdkworker "go.temporal.io/sdk/worker"
)

// Permits hands the worker's slots to the SDK. A batch has one for as long as it makes calls: while
// its part goes to the disk and its answer to the server, the next batch already runs in the slot.
// As many batches as there are slots can be that far at a time.
type Permits struct {
	Gather Gather
	size   int
	free   chan struct{} // a token for each slot that a batch can take

	mu      sync.Mutex
	vacated int // slots given up by batches that have not ended
	settled int // of batches that only wait to be reported
	lost    int // of those that are taken and must not come back
}

func New(size int) *Permits {
	s := &Permits{size: size, free: make(chan struct{}, 2*size)}
	for range size {
		s.free <- struct{}{}
	}
	return s
}

// Vacate gives up the slot of a batch whose calls are done.
func (s *Permits) Vacate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vacated < s.size {
		s.vacated++
		s.giveBack()
	}
}

// Settle notes that a batch which has given up its slot has only to be reported: another one may take its place
// among those that have given up theirs. It returns false if too many wait to be reported.
func (s *Permits) Settle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vacated == 0 || s.settled == gathered {
		return false
	}
	s.vacated--
	s.settled++
	return true
}

// giveBack makes a slot free again, unless one is to be withdrawn.
func (s *Permits) giveBack() {
	if s.lost > 0 {
		s.lost--
		return
	}
	select {
	case s.free <- struct{}{}:
	default: // of a batch that has come without a permit: nobody waits for so many
	}
}

// Withdraw takes n slots away for good: free ones, or those that become free next.
func (s *Permits) Withdraw(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		select {
		case <-s.free:
		default:
			s.lost++
		}
	}
}

// ReserveSlot waits for a slot.
func (s *Permits) ReserveSlot(ctx context.Context, _ sdkworker.SlotReservationInfo) (*sdkworker.SlotPermit, error) {
	select {
	case <-s.free:
		return &sdkworker.SlotPermit{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TryReserveSlot takes a slot if there is one.
func (s *Permits) TryReserveSlot(sdkworker.SlotReservationInfo) *sdkworker.SlotPermit {
	select {
	case <-s.free:
		return &sdkworker.SlotPermit{}
	default:
		return nil
	}
}

// used marks the permit of a slot that a batch has come for.
type used struct{}

// MarkSlotUsed notes that a batch has come for the slot.
func (s *Permits) MarkSlotUsed(info sdkworker.SlotMarkUsedInfo) { info.Permit().UserData = used{} }

// ReleaseSlot takes back the slot of a batch that has ended, unless it was given up before, or one
// that no batch came for. Slots are interchangeable: a batch that ends without having given up its
// own counts as one that did.
func (s *Permits) ReleaseSlot(info sdkworker.SlotReleaseInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if info.Permit().UserData == (used{}) && s.settled > 0 {
		s.settled--
		return
	}
	if info.Permit().UserData == (used{}) && s.vacated > 0 {
		s.vacated--
		return
	}
	s.giveBack()
}

// MaxSlots is the most batches that the worker has at a time.
func (s *Permits) MaxSlots() int { return 2*s.size + gathered }

// tuner is the SDK's own, but for the slots of batches.
type tuner struct {
	sdkworker.WorkerTuner
	slots *Permits
}

func NewTuner(s *Permits) (sdkworker.WorkerTuner, error) {
	others, err := sdkworker.NewFixedSizeTuner(sdkworker.FixedSizeTunerOptions{NumActivitySlots: s.size})
	return tuner{others, s}, err
}

// GetActivityTaskSlotSupplier returns the slots.
func (t tuner) GetActivityTaskSlotSupplier() sdkworker.SlotSupplier { return t.slots }
