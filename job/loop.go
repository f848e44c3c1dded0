package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// LoopReport is the state of a loop. Counts are of recorded ticks: those of a slot that runs are recorded about every
// second, with an output about every ten seconds.
type LoopReport struct {
	Slots   int           `json:"slots"`
	Every   time.Duration `json:"every_ns"` // interval in nanoseconds; 0: back to back
	CatchUp string        `json:"catch_up,omitempty"`
	// Running is how many slots a worker runs; Idle how many wait for a place in the pool, for two seconds or more.
	// Both are known only while the loop runs.
	Running int `json:"running"`
	Idle    int `json:"idle,omitempty"`

	Ticks   int64 `json:"ticks"`             // run
	Missed  int64 `json:"missed,omitempty"`  // of these, made up: due before the slot was free for them
	Skipped int64 `json:"skipped,omitempty"` // left out, and not among Ticks
	// Repeated are ticks that were run although a lost worker may have run them before.
	Repeated int64 `json:"repeated,omitempty"`
	// LateMean, LateMedian and LateMax are how late ticks began, in nanoseconds. The median is the lowest of a few
	// bounds that half of the ticks kept.
	LateMean   time.Duration `json:"late_mean_ns"`
	LateMedian time.Duration `json:"late_median_ns"`
	LateMax    time.Duration `json:"late_max_ns"`

	// At is where each slot stands, by number.
	At []LoopSlot `json:"at"`
}

// Report returns the report of a loop whose slots have come so far; slots that are missing are at their beginning.
func (l *Loop) Report(left []LoopSlot) *LoopReport {
	r := &LoopReport{Slots: l.Slots, Every: l.Every, CatchUp: l.CatchUp}
	for i := range l.Slots {
		r.At = append(r.At, LoopSlot{Slot: i})
	}
	r.Include(left...)
	return r
}

// Skips reports whether ticks are left out that are due while an earlier one still runs.
func (r *LoopReport) Skips() bool { return r.CatchUp == catchUpSkip }

// Include takes slots that have come further, and adds up all.
func (r *LoopReport) Include(slots ...LoopSlot) {
	for _, s := range slots {
		if s.Slot >= 0 && s.Slot < len(r.At) && s.Next >= r.At[s.Slot].Next {
			s.Again = max(s.Again, r.At[s.Slot].Again) // an execution does not know of later ones
			r.At[s.Slot] = s
		}
	}
	var sum LoopStats
	r.Ticks, r.Skipped = 0, 0
	for _, s := range r.At {
		r.Ticks += s.Next
		r.Skipped += s.Skipped
		sum.Add(s.Stats)
		sum.Repeated += s.Again
	}
	r.Missed, r.Repeated = sum.Missed, sum.Repeated
	r.LateMean, r.LateMedian, r.LateMax = 0, sum.Median(), sum.LateMax
	if r.Ticks > 0 {
		r.LateMean = sum.Late / time.Duration(r.Ticks)
	}
}

// Recorded returns the lowest tick number that not every slot has recorded.
func (r *LoopReport) Recorded() int64 {
	if len(r.At) == 0 {
		return 0
	}
	return slices.MinFunc(r.At, func(a, b LoopSlot) int { return cmp.Compare(a.Next, b.Next) }).Next
}

// Warning says that the pool has too few free slots for the loop; "" if it has enough.
func (r *LoopReport) Warning(pool string) string {
	if r.Idle == 0 {
		return ""
	}
	return fmt.Sprintf("%d of the loop's %d slots wait for a free slot of pool %s: start more workers there, or ask for fewer slots", r.Idle, r.Slots, pool)
}

// Left returns where the slots stand if Temporal has ended the loop: its workers count as lost after their last
// heartbeats.
func (r *LoopReport) Left() []LoopSlot {
	left := slices.Clone(r.At)
	for i := range left {
		left[i].Stats.Repeated += left[i].Unsure
		left[i].Unsure = 0
	}
	return left
}

// LoopSlot is where one slot of a loop stands: what has been recorded, and cannot be lost any more.
type LoopSlot struct {
	Slot int `json:"slot"` // from 0
	// Next is how many ticks have been run, so the ordinal of the next one. Its number is Next + Skipped.
	Next    int64 `json:"next"`
	Skipped int64 `json:"skipped,omitempty"` // ticks that were left out
	// Base is when tick 0 was due; tick k is due k intervals later. Zero: the next tick is due at once, and sets it.
	Base time.Time `json:"base,omitzero"`
	// Head is the manifest of the slot's latest part; it names those before. Empty: there are no parts.
	Head string `json:"head,omitempty"`
	// Doubt is an ordinal: ticks before it may have been run by an execution that was lost, although they are not
	// recorded.
	Doubt int64 `json:"doubt,omitempty"`
	// Unsure is how many more ticks may have been run a second time before another heartbeat says more. Of an execution
	// that runs.
	Unsure int64 `json:"unsure,omitempty"`
	// Again are ticks that were run twice and are not in Stats.Repeated: an execution had begun them that was given up
	// while it was cut off, and came back.
	Again int64     `json:"again,omitempty"`
	Stats LoopStats `json:"stats,omitzero"`
}
