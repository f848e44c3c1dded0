// Package permits bounds how many batches a worker takes from its queue.
package permits

import (
	"context"
	"sync"

	sdkworker "go.temporal.io/sdk/worker"
)

// Permits hands out the calls that a worker makes at once: one to each batch that comes, more to batches that make
// several calls at once. A batch has its own for as long as it makes calls: while its part goes to the disk and its
// answer to the server, the next batch already runs. As many batches as there are permits can be that far at a time.
type Permits struct {
	Gather Gather
	most   int // there were to begin with

	mu      sync.Mutex
	size    int           // there are
	taken   int           // by batches, and by polls for them
	further int           // taken by batches beyond their first one
	wake    chan struct{} // closed when one may have become free; nil: nobody waits
	vacated int           // given up by batches that have not ended
	settled int           // of batches that only wait to be reported
}

// New returns so many permits.
func New(size int) *Permits { return &Permits{most: size, size: size} }

// Further takes a permit for another call of a batch that has one already. There may be none: a poll has one that it
// may not need, so a batch that then comes waits until a call has ended.
func (s *Permits) Further() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.further++
}

// Return gives back so many further permits.
func (s *Permits) Return(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.further -= n
	s.freed()
}

// Vacate gives up the permit of a batch whose calls are done.
func (s *Permits) Vacate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vacated < s.most {
		s.vacated++
		s.giveBack()
	}
}

// Settle notes that a batch which has given up its permit has only to be reported: another one may take its place
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

// giveBack makes a permit free again. A batch may have come without one.
func (s *Permits) giveBack() {
	s.taken = max(0, s.taken-1)
	s.freed()
}

// freed wakes those who wait for a permit.
func (s *Permits) freed() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// Withdraw takes n permits away for good: free ones, or those that become free next.
func (s *Permits) Withdraw(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size -= n
}

// try takes a permit. If there is none it returns a channel that is closed when one may be free.
func (s *Permits) try() (ok bool, wake <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken+s.further < s.size {
		s.taken++
		return true, nil
	}
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return false, s.wake
}

// ReserveSlot waits for a permit.
func (s *Permits) ReserveSlot(ctx context.Context, _ sdkworker.SlotReservationInfo) (*sdkworker.SlotPermit, error) {
	for {
		ok, wake := s.try()
		if ok {
			return &sdkworker.SlotPermit{}, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// TryReserveSlot takes a permit if there is one.
func (s *Permits) TryReserveSlot(sdkworker.SlotReservationInfo) *sdkworker.SlotPermit {
	if ok, _ := s.try(); ok {
		return &sdkworker.SlotPermit{}
	}
	return nil
}

// used marks a permit that a batch has come for.
type used struct{}

// MarkSlotUsed notes that a batch has come for the permit.
func (s *Permits) MarkSlotUsed(info sdkworker.SlotMarkUsedInfo) { info.Permit().UserData = used{} }

// ReleaseSlot takes back the permit of a batch that has ended, unless it was given up before, or one
// that no batch came for. Permits are interchangeable: a batch that ends without having given up its
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
func (s *Permits) MaxSlots() int { return 2*s.most + gathered }

// tuner is the SDK's own, but for the slots of batches.
type tuner struct {
	sdkworker.WorkerTuner
	slots *Permits
}

func NewTuner(s *Permits) (sdkworker.WorkerTuner, error) {
	others, err := sdkworker.NewFixedSizeTuner(sdkworker.FixedSizeTunerOptions{NumActivitySlots: s.most})
	return tuner{others, s}, err
}

// GetActivityTaskSlotSupplier returns the slots.
func (t tuner) GetActivityTaskSlotSupplier() sdkworker.SlotSupplier { return t.slots }
