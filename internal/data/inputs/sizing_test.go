package inputs

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestBatchSize_Fixed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                 string
		items, bytes         int64
		wantItems, wantBytes int64
	}{
		{"items", 7, 0, 7, limits.MaxBatchBytes},
		{"bytes", 0, 4096, limits.MaxBatchItems, 4096},
		{"both", 7, 4096, 7, 4096},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, left := range []int64{0, 1, 1 << 40} {
				for _, rate := range []int64{0, 1, 1 << 40} {
					items, bytes := BatchSize(job.Spec{BatchItems: test.items, BatchBytes: test.bytes}, wire.Sizing{Rate: rate}, 3, left)
					require.Equal(t, test.wantItems, items)
					require.Equal(t, test.wantBytes, bytes)
				}
			}
		})
	}
}

func TestBatchSize_Automatic(t *testing.T) {
	t.Parallel()
	const plenty = 1 << 40
	tests := []struct {
		name  string
		rate  int64 // items in 1,000 s
		left  int64
		items int64
	}{
		{"an item a second", 1000, plenty, 5},
		{"an item in ten seconds", 100, plenty, 1},
		{"an item in a minute and a half", 11, plenty, 1},
		{"quick", 1_000_000_000, plenty, 250_000},
		{"quickest", math.MaxInt64, plenty, 250_000},
		{"quick, the last thousand", quickRate, 1000, 15_000}, // less than batchFloor of them
		{"quicker, the last thousand", quickRate + 1, 1000, 30_000},
		{"near the end", 1_000_000, Spread * 1000, 1000},
		{"at the end", 1_000_000, 10, 150}, // batchFloor of them
		{"at the end, slow", 1000, 10, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			items, bytes := BatchSize(job.Spec{}, wire.Sizing{Rate: test.rate}, 0, test.left)
			require.Equal(t, test.items, items)
			require.EqualValues(t, maxAutoBytes, bytes)
		})
	}
}

// Batches aim at five seconds whatever the rate, as long as much is left.
func TestBatchSize_AimsAtFiveSeconds(t *testing.T) {
	t.Parallel()
	for rate := int64(1000); rate < 20_000_000; rate = rate*5/4 + 1 {
		items, _ := BatchSize(job.Spec{}, wire.Sizing{Rate: rate}, 0, 1<<40)
		took := time.Duration(items*1_000_000/rate) * time.Millisecond
		require.LessOrEqual(t, took, batchTarget)
		require.Greater(t, took, batchTarget*4/5, "rate %d: %d items", rate, items)
	}
}

func TestBatchSize_Bounds(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{0, 1, 17, 1e6, 1e9, 1e15, math.MaxInt64} {
		for _, left := range []int64{math.MinInt64, -1, 0, 1, 63, 64, 1e6, math.MaxInt64} {
			for _, index := range []int{0, 4, 15, 999} {
				items, bytes := BatchSize(job.Spec{}, wire.Sizing{Rate: rate}, index, left)
				require.GreaterOrEqual(t, items, int64(1))
				require.LessOrEqual(t, items, int64(MaxAutoItems))
				require.GreaterOrEqual(t, bytes, int64(1))
				require.LessOrEqual(t, bytes, int64(maxAutoBytes))
			}
		}
	}
}

// No small batch is left at the end, whether left is exact or somewhat less than there is.
func TestBatchSize_EvenAtTheEnd(t *testing.T) {
	t.Parallel()
	const size = 150 // batchFloor of 1,000 items a second
	for _, error := range []int64{0, 1, 20} {
		for total := int64(1); total < 20*size; total++ {
			for left := total; left > 0; {
				items, _ := BatchSize(job.Spec{}, wire.Sizing{Rate: 1_000_000}, 0, max(0, left-error))
				if left < total {
					require.GreaterOrEqual(t, min(items, left), int64(size/2), "%d of %d", left, total)
				}
				require.LessOrEqual(t, items, int64(2*size))
				left -= items
			}
		}
	}
}

// Before the speed is known batches start small, so that slow handlers get work for many slots.
func TestBatchSize_BeforeSpeedIsKnown(t *testing.T) {
	t.Parallel()
	items, bytes := BatchSize(job.Spec{}, wire.Sizing{}, 0, 1<<40)
	require.EqualValues(t, firstItems, items)
	require.EqualValues(t, firstBytes, bytes)
	items, _ = BatchSize(job.Spec{}, wire.Sizing{}, 0, 640)
	require.EqualValues(t, 640/Spread, items)
	last := int64(0)
	for index := range 100 {
		items, _ := BatchSize(job.Spec{}, wire.Sizing{}, index, 1<<40)
		require.GreaterOrEqual(t, items, last, "the later ones grow")
		last = items
	}
	require.EqualValues(t, maxFirstSize, last)
}

// A long first page ends once its batches show the speed; one that holds all continues to the end.
func TestShowsSpeed(t *testing.T) {
	t.Parallel()
	first := wire.PlanInput{Batches: 16}
	fixed := wire.PlanInput{Batches: 16, Spec: job.Spec{BatchItems: 10}}
	known := wire.PlanInput{Batches: 16, Sizing: wire.Sizing{Rate: 1}}
	for _, c := range []struct {
		in          wire.PlanInput
		batches     int
		items, left int64
		want        bool
	}{
		{first, firstFew, 100, 5000, true},
		{first, firstFew, 100, 1001, true},
		{first, firstFew, 100, 1000, false},
		{first, firstFew - 1, 100, 5000, false},
		{first, firstFew + 1, 100, 5000, false},
		{fixed, firstFew, 100, 5000, false},
		{known, firstFew, 100, 5000, false},
	} {
		require.Equal(t, c.want, ShowsSpeed(c.in, c.batches, c.items, c.left), "%+v", c)
	}
}

// A slot that makes many calls at once gets some rounds of them with its first batch, if there are so many items for
// every slot; a slot that makes one call at a time gets what it always got.
func TestBatchSize_FillsSlots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		slots, calls int
		left         int64
		want         int64
	}{
		{"one call at a time", 4, 1, 20_000, 20_000 / Spread},
		{"4 slots, 50 calls", 4, 50, 20_000, 20_000 / Spread}, // more than some rounds
		{"few items", 4, 50, 4000, firstRounds * 50},
		{"fewer", 4, 50, 400, 100},
		{"fewest", 4, 50, 3, 1},
		{"10,000 calls", 1, 10_000, 200_000, firstRounds * 10_000},
		{"10,000 calls and plenty", 1, 10_000, 1 << 40, firstRounds * 10_000},
		{"more calls than a batch has items", 1, 1_000_000, 1 << 40, MaxAutoItems},
		{"many slots", 200, 1, 80_000, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			items, bytes := BatchSize(job.Spec{}, wire.Sizing{Slots: c.slots, Concurrency: c.calls}, 0, c.left)
			require.Equal(t, c.want, items)
			require.GreaterOrEqual(t, bytes, int64(firstBytes))
			require.LessOrEqual(t, bytes, int64(maxAutoBytes))
		})
	}
}

// Once the speed is known a slot that makes many calls at once still gets some rounds of them, as long as they are quick.
func TestBatchSize_SomeRoundsOfCalls(t *testing.T) {
	t.Parallel()
	const slow, quick = 100 * 1000, 10_000 * 1000 // items in 1,000 s
	for _, c := range []struct {
		name       string
		slots      int
		rate, left int64
		want       int64
	}{
		{"one slot", 1, quick, 20_000, firstRounds * 500},
		{"it seems slow", 1, quick / 8, 20_000, 1250}, // roundsTime of them
		{"calls are slow", 1, slow, 20_000, 500},
		{"two slots", 2, 600 * 1000, 20_000, 607},   // roundsTime of them, and all of about one size
		{"three slots", 3, quick / 4, 20_000, 1000}, // two rounds
		{"few items", 2, quick / 4, 800, 400},
		{"plenty", 1, quick, 1 << 40, 50_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			items, _ := BatchSize(job.Spec{}, wire.Sizing{Rate: c.rate, Slots: c.slots, Concurrency: 500}, 0, c.left)
			require.Equal(t, c.want, items)
		})
	}
}

// The first page gives every slot work for the time in which the next one is planned, and not much more: its sizes
// are guesses.
func TestFirstPage_OccupiesEverySlot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		slots, calls int
		total        int64
	}{
		{"2 slots", 2, 1, 1 << 40}, {"8 slots", 8, 1, 1 << 40}, {"64 slots", 64, 1, 1 << 40},
		{"1 slot, 10,000 calls", 1, 10_000, 200_000}, {"4 slots, 50 calls", 4, 50, 20_000}, {"4 slots, 50 calls, few items", 4, 50, 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := wire.PlanInput{Sizing: wire.Sizing{Slots: c.slots, Concurrency: c.calls}}
			in.Batches = FirstPage(in.Spec, in.Sizing, wire.FirstPage)
			sizes := firstPage(in, c.total)
			least := min(int64(c.slots*c.calls), c.total)
			sum := int64(0)
			for _, n := range sizes[:min(c.slots, len(sizes))] {
				sum += n
			}
			require.GreaterOrEqual(t, sum, least, "the first batch of each slot: %v", sizes)
			if len(sizes) >= c.slots {
				require.GreaterOrEqual(t, len(sizes), min(c.slots, wire.PageBatches))
			}
			if c.total == 1<<40 {
				require.Equal(t, FirstFew(in.Sizing), len(sizes))
				require.GreaterOrEqual(t, len(sizes), 2*c.slots)
				for _, n := range sizes[:max(growAfter, c.slots)] {
					require.EqualValues(t, firstItems, n, "no slot begins with a large one")
				}
			}
		})
	}
	require.Equal(t, wire.FirstPage, FirstPage(job.Spec{}, wire.Sizing{}, wire.FirstPage))
	require.Equal(t, wire.FirstPage, FirstPage(job.Spec{BatchItems: 10}, wire.Sizing{Slots: 2, Concurrency: 4}, wire.FirstPage))
	require.Equal(t, 400, FirstPage(job.Spec{BatchItems: 1}, wire.Sizing{Slots: 4, Concurrency: 50}, wire.FirstPage))
	require.Equal(t, wire.PageBatches, FirstPage(job.Spec{BatchItems: 1}, wire.Sizing{Slots: 1000, Concurrency: 1000}, wire.FirstPage))
	require.Equal(t, wire.PageBatches, FirstPage(job.Spec{}, wire.Sizing{Slots: 1000}, wire.FirstPage))
}

// firstPage lists the sizes of a first page's batches.
func firstPage(in wire.PlanInput, left int64) []int64 {
	var sizes []int64
	for len(sizes) < in.Batches && left > 0 {
		items, _ := BatchSize(in.Spec, in.Sizing, len(sizes), left)
		if ShowsSpeed(in, len(sizes), items, left) {
			break
		}
		sizes = append(sizes, min(items, left))
		left -= min(items, left)
	}
	return sizes
}

// The whole of a job whose items all take the same time, cut as it is cut: when its last slot is done. The second page
// comes some time after the fourth batch has ended.
func TestSizing_KeepsSlotsBusy(t *testing.T) {
	t.Parallel()
	const planning = 250 * time.Millisecond
	for _, c := range []struct {
		name         string
		slots, calls int
		items        int64
		each         time.Duration
		most         float64 // of the time that a bare pool takes
	}{
		{"4 × 50 calls of 50 ms", 4, 50, 20_000, 50 * time.Millisecond, 1.1},
		{"10,000 calls of 100 ms", 1, 10_000, 200_000, 100 * time.Millisecond, 1.1},
		{"4 slots, 5 ms", 4, 1, 20_000, 5 * time.Millisecond, 1.02},
		{"64 slots, 5 ms", 64, 1, 300_000, 5 * time.Millisecond, 1.05},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			took := func(n int64) time.Duration { // of a batch, in whole rounds of calls
				return time.Duration((n+int64(c.calls)-1)/int64(c.calls)) * c.each
			}
			in := wire.PlanInput{Sizing: wire.Sizing{Slots: c.slots, Concurrency: c.calls}}
			in.Batches = FirstPage(in.Spec, in.Sizing, wire.FirstPage)
			slots := make([]time.Duration, c.slots) // when each is free
			var ends []time.Duration
			run := func(n int64, from time.Duration) {
				i := 0
				for k := range slots {
					if slots[k] < slots[i] {
						i = k
					}
				}
				slots[i] = max(slots[i], from) + took(n)
				ends = append(ends, slots[i])
			}
			left := c.items
			for _, n := range firstPage(in, c.items) {
				run(n, 0)
				left -= n
			}
			slices.Sort(ends)
			from := ends[min(3, len(ends)-1)] + planning
			in.Sizing.Rate = int64(c.calls) * int64(1000*time.Second/c.each)
			for left > 0 {
				n, _ := BatchSize(in.Spec, in.Sizing, 0, left)
				n = min(n, left)
				run(n, from)
				left -= n
			}
			bare := took(c.items).Seconds() / float64(c.slots)
			require.Less(t, slices.Max(slots).Seconds(), c.most*bare)
		})
	}
}
