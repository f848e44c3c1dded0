package inputs

import (
	"time"

	"github.com/stint-run/stint/job"
)

// Automatic batches aim at batchTarget of one slot's time, so that their cost to the server is
// small and a killed worker loses little. If less than spread such batches are left they
// become smaller, down to batchFloor, so that there is work for many workers, and all of them end
// at about the same time.
const (
	batchTarget = 5 * time.Second
	batchFloor  = 150 * time.Millisecond
	Spread      = 64

	MaxAutoItems = 100_000
	maxAutoBytes = 64 << 20

	// Before anything is known of the handler's speed: the first batches are small, so that slow
	// handlers get work for many slots, and the later ones grow, so that quick ones show their speed.
	firstSpread  = 64
	firstItems   = 500
	firstBytes   = 4 << 20
	growAfter    = 2 // batches of the first size
	growth       = 4
	maxFirstSize = 16_000
	// FirstFew of them show the speed.
	FirstFew = 6
)

// Sizing is what the coordinating workflow knows of the handler's speed.
type Sizing struct {
	// Rate is the items that one slot handles in 1,000 seconds; 0 while it is unknown.
	Rate int64 `json:"rate,omitempty"`
}

// BatchSize returns the most items and bytes of the next batch, the index-th of its page, if about
// left items are still to be planned. It uses integers only.
func BatchSize(spec job.Spec, sizing Sizing, index int, left int64) (items, bytes int64) {
	if spec.BatchItems > 0 || spec.BatchBytes > 0 {
		items, bytes = job.MaxBatchItems, job.MaxBatchBytes
		if spec.BatchItems > 0 {
			items = spec.BatchItems
		}
		if spec.BatchBytes > 0 {
			bytes = spec.BatchBytes
		}
		return items, bytes
	}
	if sizing.Rate == 0 {
		grown := int64(firstItems)
		for i := growAfter; i <= index && grown < maxFirstSize; i++ {
			grown *= growth
		}
		return clamp(left/firstSpread, 1, min(grown, maxFirstSize)), firstBytes
	}
	most := clamp(perSlot(sizing.Rate, batchTarget), 1, MaxAutoItems)
	least := clamp(perSlot(sizing.Rate, batchFloor), 1, most)
	return even(left, clamp(left/Spread, least, most), most), maxAutoBytes
}

// ShowsSpeed reports whether a first page should end after so many automatic batches, the next one of
// the given items: the rest of the input, unless it fits into the page, is better cut once they have
// shown the handler's speed.
func ShowsSpeed(in PlanInput, batches int, items, left int64) bool {
	automatic := in.Spec.BatchItems == 0 && in.Spec.BatchBytes == 0
	return automatic && in.Sizing.Rate == 0 && batches == FirstFew && left > items*int64(in.Batches-FirstFew)
}

// perSlot is the items that a slot handles in d.
func perSlot(rate int64, d time.Duration) int64 {
	const maxRate = 1 << 40 // keeps the product within 64 bits
	return min(rate, maxRate) * d.Milliseconds() / 1_000_000
}

// even returns a size of at most most near the given one, so that the last batches are of about one size
// if few are left: about left items are.
func even(left, size, most int64) int64 {
	if left < size/2 || left/size > Spread {
		return size
	}
	if batches := (left + size/2) / size; batches > 1 {
		return min((left+batches-1)/batches, most)
	}
	return min(2*size, most) // all, also if there are somewhat more
}

func clamp(v, lo, hi int64) int64 { return max(lo, min(v, hi)) }
