package protocol

import "time"

// A loop is a job whose items are the ticks of a clock. Each of its slots is one long activity, which is replaced about
// every hour. Ticks are no events: how far a slot has come rides in heartbeats, and in the activity's result.

// WorkflowLoopLeg is the registered name of the workflow type of a loop's legs. Each runs one slot.
const WorkflowLoopLeg = "LoopLeg"

// Endless is the ordinal after the last item of a batch that has no end.
const Endless = 1 << 60

// Clock is what one execution of a loop's slot is given.
type Clock struct {
	ClockSlot
	// Every is the interval; 0: back to back.
	Every time.Duration `json:"e,omitempty"`
	// Skip: ticks that were due before the slot was free for them are left out. Otherwise they are made up.
	Skip bool `json:"m,omitempty"`
	// Keep: results are written to the store.
	Keep bool `json:"o,omitempty"`
}

// ClockSlot is where one slot of a loop stands: what has been recorded, and cannot be lost any more.
type ClockSlot struct {
	Slot int `json:"slot"` // from 0
	// Next is how many ticks have been run, so the ordinal of the next one. Its number is Next + Skipped.
	Next    int64 `json:"next"`
	Skipped int64 `json:"skipped,omitempty"` // ticks that were left out
	// Base is when tick 0 was due; tick k is due k intervals later. Zero: the next tick is due at once, and sets it.
	Base time.Time `json:"base,omitzero"`
	// Head is the manifest of the slot's latest part; it names those before. Empty: there are no parts.
	Head string `json:"head,omitempty"`
	// Doubt is an ordinal: ticks before it may have been run by an execution that was lost, although they are not recorded.
	Doubt int64 `json:"doubt,omitempty"`
	// Unsure is how many more ticks may have been run a second time before another heartbeat says more. Of an execution that runs.
	Unsure int64 `json:"unsure,omitempty"`
	// Again are ticks that were run twice and are not in Stats.Repeated: an execution had begun them that was given up while it was cut off, and came
	// back.
	Again int64      `json:"again,omitempty"`
	Stats ClockStats `json:"stats,omitzero"`
}

// ClockStats are counts over the recorded ticks of a slot.
type ClockStats struct {
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
	// Lateness counts ticks by how late they began: Lateness[i] those that were later than lateBounds[i-1] and not later than
	// lateBounds[i]; the last of len(lateBounds) + 1 counts those that were later than all. Trailing zeros are left out.
	Lateness []int64 `json:"lateness,omitempty"`
}

// lateBounds are the bounds of ClockStats.Lateness.
var lateBounds = [...]time.Duration{
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute,
}

// Began counts a tick that began so late.
func (s *ClockStats) Began(late time.Duration) {
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
func (s *ClockStats) Add(o ClockStats) {
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

// Median is how late half of the ticks were at most, as exactly as lateBounds allow; 0 if there are none.
func (s *ClockStats) Median() time.Duration {
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
