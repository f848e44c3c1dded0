package throttle

import "time"

// Speed is what batches have shown of the handler's speed. Large batches show it best, because every
// batch has its own cost: batches of less than about half the size of the largest do not count.
type Speed struct {
	Items   int64         `json:"items"`
	Busy    time.Duration `json:"busy"` // of one slot, for these items
	Largest int64         `json:"largest"`
}

// Add counts a batch of so many items that has kept a slot busy for so long.
func (s *Speed) Add(items int64, busy time.Duration) {
	if items >= 2*s.Largest {
		*s = Speed{Largest: items}
	}
	if 2*items < s.Largest {
		return
	}
	s.Largest = max(s.Largest, items)
	s.Items += items
	s.Busy += busy
}

// Rate returns how many items one slot handles in 1,000 seconds; 0 if nothing is known.
func (s Speed) Rate() int64 {
	return s.Items * 1_000_000 / max(1, s.Busy.Milliseconds())
}

// Count returns how many items one slot handles in a time; 0 if nothing is known.
func (s Speed) Count(d time.Duration) int64 {
	return s.Items * d.Microseconds() / max(1, s.Busy.Microseconds())
}

// Each returns how long one item takes; 0 if nothing is known.
func (s Speed) Each() time.Duration { return s.Busy / time.Duration(max(1, s.Items)) }
