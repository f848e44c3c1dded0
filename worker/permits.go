package worker

import (
	"context"
	"sync"

	sdkworker "go.temporal.io/sdk/worker"
)

// permits hands the worker's slots to the SDK. A batch has one for as long as it makes calls: while
// its part goes to the disk and its answer to the server, the next batch already runs in the slot.
// As many batches as there are slots can be that far at a time.
type permits struct {
	size int
	free chan struct{} // a token for each slot that a batch can take

	mu      sync.Mutex
	vacated int // slots given up by batches that have not ended
	lost    int // of those that are taken and must not come back
}

func newPermits(size int) *permits {
	s := &permits{size: size, free: make(chan struct{}, 2*size)}
	for range size {
		s.free <- struct{}{}
	}
	return s
}

// vacate gives up the slot of a batch whose calls are done.
func (s *permits) vacate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vacated < s.size {
		s.vacated++
		s.giveBack()
	}
}

// giveBack makes a slot free again, unless one is to be withdrawn.
func (s *permits) giveBack() {
	if s.lost > 0 {
		s.lost--
		return
	}
	s.free <- struct{}{}
}

// withdraw takes n slots away for good: free ones, or those that become free next.
func (s *permits) withdraw(n int) {
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
func (s *permits) ReserveSlot(ctx context.Context, _ sdkworker.SlotReservationInfo) (*sdkworker.SlotPermit, error) {
	select {
	case <-s.free:
		return &sdkworker.SlotPermit{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TryReserveSlot takes a slot if there is one.
func (s *permits) TryReserveSlot(sdkworker.SlotReservationInfo) *sdkworker.SlotPermit {
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
func (s *permits) MarkSlotUsed(info sdkworker.SlotMarkUsedInfo) { info.Permit().UserData = used{} }

// ReleaseSlot takes back the slot of a batch that has ended, unless it was given up before, or one
// that no batch came for. Slots are not told apart: a batch that ends without having given up its
// own passes for one that did.
func (s *permits) ReleaseSlot(info sdkworker.SlotReleaseInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if info.Permit().UserData == (used{}) && s.vacated > 0 {
		s.vacated--
		return
	}
	s.giveBack()
}

// MaxSlots is the most batches that are in the worker's hands at a time.
func (s *permits) MaxSlots() int { return 2 * s.size }

// tuner is the SDK's own, but for the slots of batches.
type tuner struct {
	sdkworker.WorkerTuner
	slots *permits
}

func newTuner(s *permits) (sdkworker.WorkerTuner, error) {
	others, err := sdkworker.NewFixedSizeTuner(sdkworker.FixedSizeTunerOptions{NumActivitySlots: s.size})
	return tuner{others, s}, err
}

// GetActivityTaskSlotSupplier returns the slots.
func (t tuner) GetActivityTaskSlotSupplier() sdkworker.SlotSupplier { return t.slots }
