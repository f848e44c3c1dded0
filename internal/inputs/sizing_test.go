package inputs

import (
	"math"
	"testing"
	"time"

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
		{"items", 7, 0, 7, job.MaxBatchBytes},
		{"bytes", 0, 4096, job.MaxBatchItems, 4096},
		{"both", 7, 4096, 7, 4096},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, left := range []int64{0, 1, 1 << 40} {
				for _, rate := range []int64{0, 1, 1 << 40} {
					items, bytes := BatchSize(job.Spec{BatchItems: test.items, BatchBytes: test.bytes}, Sizing{Rate: rate}, 3, left)
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
		{"quick", 1_000_000_000, plenty, 100_000},
		{"quickest", math.MaxInt64, plenty, 100_000},
		{"quick, the last thousand", 1_000_000_000, 1000, 100_000}, // less than batchFloor of them
		{"near the end", 1_000_000, Spread * 1000, 1000},
		{"at the end", 1_000_000, 10, 150}, // batchFloor of them
		{"at the end, slow", 1000, 10, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			items, bytes := BatchSize(job.Spec{}, Sizing{Rate: test.rate}, 0, test.left)
			require.Equal(t, test.items, items)
			require.EqualValues(t, maxAutoBytes, bytes)
		})
	}
}

// Batches aim at five seconds whatever the rate, as long as much is left.
func TestBatchSize_AimsAtFiveSeconds(t *testing.T) {
	t.Parallel()
	for rate := int64(1000); rate < 20_000_000; rate = rate*5/4 + 1 {
		items, _ := BatchSize(job.Spec{}, Sizing{Rate: rate}, 0, 1<<40)
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
				items, bytes := BatchSize(job.Spec{}, Sizing{Rate: rate}, index, left)
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
				items, _ := BatchSize(job.Spec{}, Sizing{Rate: 1_000_000}, 0, max(0, left-error))
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
	items, bytes := BatchSize(job.Spec{}, Sizing{}, 0, 1<<40)
	require.EqualValues(t, firstItems, items)
	require.EqualValues(t, firstBytes, bytes)
	items, _ = BatchSize(job.Spec{}, Sizing{}, 0, 640)
	require.EqualValues(t, 640/firstSpread, items)
	last := int64(0)
	for index := range 100 {
		items, _ := BatchSize(job.Spec{}, Sizing{}, index, 1<<40)
		require.GreaterOrEqual(t, items, last, "the later ones grow")
		last = items
	}
	require.EqualValues(t, maxFirstSize, last)
}

// A long first page ends once its batches show the speed; one that holds all continues to the end.
func TestShowsSpeed(t *testing.T) {
	t.Parallel()
	first := PlanInput{Batches: 16}
	fixed := PlanInput{Batches: 16, Spec: job.Spec{BatchItems: 10}}
	known := PlanInput{Batches: 16, Sizing: Sizing{Rate: 1}}
	for _, c := range []struct {
		in          PlanInput
		batches     int
		items, left int64
		want        bool
	}{
		{first, FirstFew, 100, 5000, true},
		{first, FirstFew, 100, 1001, true},
		{first, FirstFew, 100, 1000, false},
		{first, FirstFew - 1, 100, 5000, false},
		{first, FirstFew + 1, 100, 5000, false},
		{fixed, FirstFew, 100, 5000, false},
		{known, FirstFew, 100, 5000, false},
	} {
		require.Equal(t, c.want, ShowsSpeed(c.in, c.batches, c.items, c.left), "%+v", c)
	}
}
