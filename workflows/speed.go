package workflows

import "time"

// speed is what a leg's batches have shown of the handler's speed. Large batches tell most, because
// every batch has a cost of its own: those of less than about half the size of the largest do not
// count.
type speed struct {
	Items   int64         `json:"items"`
	Busy    time.Duration `json:"busy"` // of one slot, for these items
	Largest int64         `json:"largest"`
}

func (s *speed) add(items int64, busy time.Duration) {
	if items >= 2*s.Largest {
		*s = speed{Largest: items}
	}
	if 2*items < s.Largest {
		return
	}
	s.Largest = max(s.Largest, items)
	s.Items += items
	s.Busy += busy
}

// rate is the items that one slot handles in 1,000 seconds; 0 when nothing is known. Integer
// arithmetic: every processor must replay it alike.
func (s speed) rate() int64 {
	return s.Items * 1_000_000 / max(1, s.Busy.Milliseconds())
}

// each is what one item takes; 0 when nothing is known.
func (s speed) each() time.Duration { return s.Busy / time.Duration(max(1, s.Items)) }
