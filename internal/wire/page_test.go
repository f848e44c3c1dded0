package wire

import (
	"math"
	"math/rand" // what testing/quick takes
	"slices"
	"testing"
	"testing/quick"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stretchr/testify/require"
)

func TestPage_RoundTrip(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		batches []Batch
	}{
		{"none", nil},
		{"one at the beginning", []Batch{Batch{Length: 10, Count: 2}.Sealed()}},
		{"in a row", []Batch{Batch{Length: 10, Count: 2}.Sealed(), Batch{Offset: 10, Length: 20, First: 2, Count: 3}.Sealed()}},
		{"not at the beginning", []Batch{Batch{Source: 3, Offset: 1000, Length: 10, First: 50, Count: 2}.Sealed()}},
		{"with a gap", []Batch{Batch{Length: 10, Count: 2}.Sealed(), Batch{Offset: 30, Length: 20, First: 7, Count: 3}.Sealed()}},
		{"over sources", []Batch{Batch{Length: 10, Count: 2}.Sealed(), Batch{Source: 1, Length: 20, First: 2, Count: 3}.Sealed()}},
		{"blank bytes between", []Batch{Batch{Length: 10, Count: 2}.Sealed(), Batch{Offset: 11, Length: 20, First: 2, Count: 3}.Sealed()}},
		{"largest", []Batch{Batch{Source: 1 << 30, Offset: 1 << 50, Length: limits.MaxBatchBytes, First: 1 << 50, Count: limits.MaxBatchItems}.Sealed()}},
		{"with a parcel among others", []Batch{
			Batch{Length: 10, Count: 2}.Sealed(), Batch{Offset: 10, Length: 20, First: 2, Count: 3, From: &Parcel{Step: 1, Run: "r", Parts: []Part{{Number: 1, Run: "r", Token: "p", Count: 9, Format: "jsonl", Bytes: 7, Sum: 8}}}}.Sealed(),
			Batch{Offset: 30, Length: 5, First: 5, Count: 1}.Sealed(),
		}},
		{"with digests", []Batch{
			Batch{Length: 10, Count: 2, Digest: 1<<32 - 1}.Sealed(), Batch{Offset: 10, Length: 20, First: 2, Count: 3}.Sealed(),
			Batch{Source: 2, Length: 5, First: 5, Count: 1, Digest: 1, From: &Parcel{Step: 1}}.Sealed(),
		}},
		{"backwards", []Batch{Batch{Offset: 30, Length: 20, First: 7, Count: 3}.Sealed(), Batch{Length: 10, Count: 2}.Sealed()}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := DecodePage(EncodePage(test.batches))
			require.NoError(t, err)
			require.Equal(t, test.batches, got)
		})
	}
}

func TestPage_RoundTripOfAnything(t *testing.T) {
	t.Parallel()
	const limit = math.MaxInt64 >> 2
	check := func(fields [][4]uint32, big []uint64) bool {
		var batches []Batch
		next := Batch{}
		for i, f := range fields {
			b := next
			if f[0]%3 == 0 {
				b.Source, b.Offset, b.First = int(f[1]), int64(f[2]), int64(f[3])
			}
			b.Length, b.Count = int64(f[1]), max(1, int64(f[2]))
			if len(big) > 0 {
				b.Length = int64(big[i%len(big)] % limit)
			}
			b = b.Sealed()
			batches = append(batches, b)
			next = b.After(b.Count, b.Length)
			next.Offset, next.First = max(0, next.Offset), max(0, next.First)
		}
		got, err := DecodePage(EncodePage(batches))
		return err == nil && (len(batches) == 0 && len(got) == 0 || equal(batches, got))
	}
	const seed = 20261121
	t.Logf("seed %d", seed)
	require.NoError(t, quick.Check(check, &quick.Config{MaxCount: 500, Rand: rand.New(rand.NewSource(seed))}))
}

func equal(a, b []Batch) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// G8: a page travels twice through the job's history.
func TestPage_Small(t *testing.T) {
	t.Parallel()
	var batches []Batch
	next := Batch{Offset: 1 << 40, First: 1 << 33}.Sealed()
	for i := range 1000 {
		next.Length, next.Count = int64(1<<20+i), 12_345
		batches = append(batches, next.Sealed())
		next = next.After(next.Count, next.Length)
	}
	require.Less(t, len(EncodePage(batches)), 10*len(batches)+30)
}

func TestPage_CutShort(t *testing.T) {
	t.Parallel()
	page := EncodePage([]Batch{Batch{Source: 300, Offset: 300, Length: 300, First: 300, Count: 300}.Sealed()})
	for n := 1; n < len(page); n++ {
		_, err := DecodePage(page[:n])
		require.Error(t, err)
	}
}

// A page that brings other batches than it was made of is not read.
func TestD1_DamagedPage(t *testing.T) {
	t.Parallel()
	batches := []Batch{{Offset: 5, Length: 10, Count: 2}, {Offset: 15, Length: 20, First: 2, Count: 3}}
	for i := range batches {
		batches[i] = batches[i].Sealed()
	}
	page := EncodePage(batches)
	for i := range page {
		damaged := slices.Clone(page)
		damaged[i] ^= 2
		_, err := DecodePage(damaged)
		require.Error(t, err, "byte %d", i)
	}
	batches[1].Offset = 0
	_, err := DecodePage(EncodePage(batches))
	require.ErrorIs(t, err, ErrDamaged)
}

func FuzzDecodePage(f *testing.F) {
	f.Add([]byte{})
	f.Add(EncodePage([]Batch{Batch{Length: 10, Count: 2}.Sealed(), Batch{Source: 1, Length: 20, First: 2, Count: 3}.Sealed()}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, page []byte) {
		batches, err := DecodePage(page)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(batches), len(page)/2)
		again, err := DecodePage(EncodePage(batches))
		require.NoError(t, err)
		require.Equal(t, batches, again)
	})
}
