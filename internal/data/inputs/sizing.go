package inputs

import (
	"cmp"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Automatic batches aim at batchTarget of one slot's wall time, in which it makes as many calls at once as it can, so
// that their cost to the server is small and a killed worker loses little. If less such batches are left than
// [SpreadOf] says, they become smaller, down to batchFloor, so that there is work for all slots, and they end at about
// the same time. They do not become so small that a slot would have fewer items than it makes calls at once: that would
// save no time.
const (
	batchTarget = 5 * time.Second
	batchFloor  = 150 * time.Millisecond
	// limitedTarget is that of a batch of a job whose requests are limited.
	limitedTarget = 3 * time.Second
	// A batch of a slot that makes several calls at once seems slower than the slot is, which has others in hand
	// meanwhile. So the smallest ones have some rounds of calls, if these seem to take no longer than roundsTime: as many
	// as the first ones if there is no other slot that could take a share of them.
	leastRounds = 2
	roundsTime  = time.Second
	// Of items that seem to take less than 10 µs, most of what is measured is the cost of a batch: a process that starts,
	// a file that is written. They take less than it seems, and their batches are twice as large at least.
	quickRate = 100_000 * 1000

	MaxAutoItems = 250_000
	maxAutoBytes = 64 << 20

	// Spread is among how many batches the last items are spread at least, if it is not known how many slots there
	// are, or if these make several calls at once, which end together less well. Otherwise it is spreadPerSlot for each.
	Spread        = 64
	spreadPerSlot = 4

	// Before anything is known of the handler's speed: the first batches are small, so that slow
	// handlers get work for many slots, and the later ones grow, so that quick ones show their speed. With many
	// calls at once the first ones have enough items for some rounds of them: a slot does not run dry at once.
	firstItems   = 500
	firstBytes   = 4 << 20
	firstRounds  = 4
	growAfter    = 2 // steps with batches of the first size
	growth       = 4
	maxFirstSize = 16_000
	// So many of them show the speed: firstFew, or fewPerSlot for each slot, or manyPerSlot if a slot makes many
	// calls at once. The slots have work then while the next page is planned.
	firstFew    = 6
	fewPerSlot  = 2
	manyPerSlot = 3
)

// Including returns what is known of the pool together with one of its workers.
func Including(s wire.Sizing, c wire.Capacity) wire.Sizing {
	s.Slots, s.Concurrency = max(s.Slots, c.Slots), max(s.Concurrency, c.Concurrency)
	return s
}

// SpreadOf is among how many batches the last items are spread.
func SpreadOf(s wire.Sizing) int64 {
	if s.Slots == 0 || s.Concurrency > 1 {
		return widely(s)
	}
	return spreadPerSlot * slotsOf(s)
}

// widely returns the number of batches if it is not known how many slots there are, or when they end.
func widely(s wire.Sizing) int64 { return max(Spread, 2*slotsOf(s)) }

// slots are those that are known, at least one.
func slotsOf(s wire.Sizing) int64 { return int64(max(1, s.Slots)) }

// filling returns how many of the items that are left fill a slot with calls for some rounds, if other slots get
// as many; 1 if a slot makes one call at a time.
func filling(s wire.Sizing, rounds, left int64) int64 {
	if s.Concurrency <= 1 {
		return 1
	}
	return max(1, min(rounds*int64(s.Concurrency), left/slotsOf(s)))
}

// BatchSize returns the most items and bytes of the next batch, the index-th of its page, if about
// left items are still to be planned. It uses integers only.
func BatchSize(spec job.Spec, sizing wire.Sizing, index int, left int64) (items, bytes int64) {
	if !automatic(spec) {
		return cmp.Or(spec.BatchItems, limits.MaxBatchItems), cmp.Or(spec.BatchBytes, limits.MaxBatchBytes)
	}
	if sizing.Rate == 0 {
		items, bytes = firstSize(sizing, index, left)
		return max(items, limited(spec)), bytes
	}
	spread, target := SpreadOf(sizing), batchTarget
	if spec.Streams() {
		target = clamp(spec.Files.Flush, batchFloor, batchTarget)
	}
	most := clamp(max(perSlot(sizing.Rate, target), int64(sizing.Concurrency)), 1, MaxAutoItems)
	least := clamp(max(leastItems(sizing, left), limited(spec)), 1, most)
	return even(left, clamp(left/spread, least, most), most, spread), maxAutoBytes
}

// leastItems returns how many items a batch should not be smaller than.
func leastItems(s wire.Sizing, left int64) int64 {
	floor := perSlot(s.Rate, batchFloor)
	if s.Rate > quickRate {
		floor *= 2
	}
	rounds := max(leastRounds, firstRounds/slotsOf(s))
	return max(floor, filling(s, 1, left), min(filling(s, rounds, left), perSlot(s.Rate, roundsTime)))
}

// limited returns how many items a batch has at least if requests are limited: as many as are begun in limitedTarget. At
// its end some turns are lost.
func limited(spec job.Spec) int64 {
	return min(int64(spec.RequestRate)*int64(limitedTarget/time.Second)/60_000, MaxAutoItems)
}

// firstSize returns the size of a batch while the handler's speed is not known. Sizes grow in steps of half as many
// batches as there are slots.
func firstSize(s wire.Sizing, index int, left int64) (items, bytes int64) {
	first := int64(firstItems)
	if s.Concurrency > 1 {
		first = min(max(first, firstRounds*int64(s.Concurrency)), MaxAutoItems)
	}
	most, step := max(first, maxFirstSize), max(1, s.Slots/2)
	grown := first
	for i := growAfter * step; i <= index && grown < most; i += step {
		grown *= growth
	}
	grown = min(grown, most)
	items = clamp(left/widely(s), min(filling(s, firstRounds, left), grown), grown)
	return items, firstBytes * clamp(first/firstItems, 1, maxAutoBytes/firstBytes)
}

// automatic reports whether the size of batches is.
func automatic(spec job.Spec) bool { return spec.BatchItems == 0 && spec.BatchBytes == 0 }

// FirstFew returns how many automatic batches show the handler's speed to begin with: at most [wire.PageBatches].
func FirstFew(s wire.Sizing) int {
	each := fewPerSlot
	if s.Concurrency > 1 {
		each = manyPerSlot
	}
	return clamp(each*s.Slots, firstFew, wire.PageBatches)
}

// FirstPage returns the most batches of a job's first page: least, or more if the known slots take more. They are at
// most [wire.PageBatches], fewer if the job has several stages (see [pipeline.Program]).
func FirstPage(spec job.Spec, s wire.Sizing, least int) int {
	most := pipeline.Compile(spec.Stages).Page(spec.BatchItems)
	occupy := s.Slots
	switch {
	case s.Slots == 0:
		return least
	case automatic(spec):
		occupy = FirstFew(s)
	case spec.BatchItems > 0:
		occupy = int(min(wire.Capacity{Slots: s.Slots, Concurrency: s.Concurrency}.Batches(spec.BatchItems), wire.PageBatches))
	}
	return clamp(2*occupy, least, max(least, most))
}

// maxReused is how many items an automatic batch has at most where items are likely to have a result of an earlier run:
// those that have none may be slow, and are not known before.
const maxReused = 50_000

// withReuse returns the size of the next batch, the index-th of its page, of a job that takes results of an earlier run.
// Behind as many items as that run had, items are likely to be new: whatever speed the others have shown, they are cut as
// if nothing was known of it.
func (p *planner) withReuse(in wire.PlanInput, index int, items int64) int64 {
	r := p.table.Reuse
	if r == nil || r.From == nil || r.Adds || !automatic(in.Spec) {
		return items
	}
	if old := r.From.Items - p.at.Item; old > 0 {
		return min(items, maxReused, old)
	}
	first, _ := firstSize(in.Sizing, index, p.Left())
	return min(items, max(first, limited(in.Spec)))
}

// ShowsSpeed reports whether a first page should end after so many automatic batches, the next one of
// the given items: the rest of the input, unless it fits into the page, is better cut once they have
// shown the handler's speed.
func ShowsSpeed(in wire.PlanInput, batches int, items, left int64) bool {
	few := FirstFew(in.Sizing)
	return automatic(in.Spec) && in.Sizing.Rate == 0 && batches == few && left > items*int64(in.Batches-few)
}

// perSlot returns the items that a slot handles in d.
func perSlot(rate int64, d time.Duration) int64 {
	const maxRate = 1 << 40 // keeps the product within 64 bits
	return min(rate, maxRate) * d.Milliseconds() / 1_000_000
}

// even returns a size of at most most near the given one, so that the last batches are of about one size
// if at most spread are left: about left items are.
func even(left, size, most, spread int64) int64 {
	if left < size/2 || left/size > spread {
		return size
	}
	if batches := (left + size/2) / size; batches > 1 {
		return min((left+batches-1)/batches, most)
	}
	return min(2*size, most) // all, also if there are somewhat more
}

func clamp[T int | int64 | time.Duration](v, lo, hi T) T { return max(lo, min(v, hi)) }
