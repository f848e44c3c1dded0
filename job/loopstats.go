package job

import "time"

// ClockStats are counts over the recorded ticks of a slot.
type LoopStats struct {
	OK      int64 `json:"ok"` // dropped ones included
	Failed  int64 `json:"failed,omitempty"`
	Dropped int64 `json:"dropped,omitempty"`
	// Missed are ticks that were made up: they were due before the slot was free for them.
	Missed int64 `json:"missed,omitempty"`
	// Repeated are ticks that were run although a lost execution may have run them before.
	Repeated int64 `json:"repeated,omitempty"`
	// Late is how late ticks began, summed; LateMax the most. Both in nanoseconds, and 0 for ticks back to back.
	Late    time.Duration `json:"late,omitempty"`
	LateMax time.Duration `json:"late_max,omitempty"`
	// Lateness counts ticks by how late they began: Lateness[i] those that were later than lateBounds[i-1] and not
	// later than lateBounds[i]; the last of len(lateBounds) + 1 counts those that were later than all. Trailing zeros
	// are left out.
	Lateness []int64 `json:"lateness,omitempty"`
}

// lateBounds are the bounds of LoopStats.Lateness.
var lateBounds = [...]time.Duration{
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute,
}

// Began counts a tick that began so late.
func (s *LoopStats) Began(late time.Duration) {
	s.Late += late
	s.LateMax = max(s.LateMax, late)
	i := 0
	for i < len(lateBounds) && late > lateBounds[i] {
		i++
	}
	for len(s.Lateness) <= i {
		s.Lateness = append(s.Lateness, 0)
	}
	s.Lateness[i]++
}

// Add adds the counts of another slot.
func (s *LoopStats) Add(o LoopStats) {
	s.OK += o.OK
	s.Failed += o.Failed
	s.Dropped += o.Dropped
	s.Missed += o.Missed
	s.Repeated += o.Repeated
	s.Late += o.Late
	s.LateMax = max(s.LateMax, o.LateMax)
	sum := make([]int64, max(len(s.Lateness), len(o.Lateness)))
	copy(sum, s.Lateness)
	for i, n := range o.Lateness {
		sum[i] += n
	}
	s.Lateness = sum
}

// Median returns how late half of the ticks were at most, as exactly as lateBounds allow; 0 if there are none.
func (s *LoopStats) Median() time.Duration {
	var ticks, sofar int64
	for _, n := range s.Lateness {
		ticks += n
	}
	for i, n := range s.Lateness {
		if sofar += n; sofar > 0 && 2*sofar >= ticks {
			if i == len(lateBounds) {
				return s.LateMax
			}
			return min(lateBounds[i], s.LateMax)
		}
	}
	return 0
}
