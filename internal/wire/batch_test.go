package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBatch_After(t *testing.T) {
	t.Parallel()
	whole := Batch{Source: 2, Offset: 100, Length: 50, First: 10, Count: 5}.Sealed()
	require.Equal(t, whole, whole.After(0, 0))

	rest := whole.After(2, 21)
	require.Equal(t, Batch{Source: 2, Offset: 121, Length: 29, First: 12, Count: 3}.Sealed(), rest)
	require.Equal(t, whole.End(), rest.End(), "a rest is a suffix")

	require.Equal(t, Batch{Source: 2, Offset: 150, First: 15}.Sealed(), whole.After(5, 50), "nothing is left")
}

// A change of any field is noticed, wherever the batch is then split, cut or given a parcel.
func TestD1_BatchCheck(t *testing.T) {
	t.Parallel()
	parcel := func() *Parcel {
		return &Parcel{Step: 1, Run: "r", Routed: []uint32{1}, Cuts: []Cut{{Item: 11, Offset: 110}}, Parts: []Part{{Number: 1, Run: "r", Token: "p", First: 10, Count: 5, Bytes: 9}}}
	}
	whole := Batch{Source: 2, Offset: 100, Length: 50, First: 10, Count: 5, From: parcel()}.Sealed()
	require.NoError(t, whole.Verify())
	require.NoError(t, Batch{}.Sealed().Verify())
	require.ErrorIs(t, Batch{}.Verify(), ErrDamaged, "one that was never sealed")
	for name, change := range map[string]func(b *Batch){
		"source": func(b *Batch) { b.Source++ }, "offset": func(b *Batch) { b.Offset = 0 }, "length": func(b *Batch) { b.Length++ },
		"first": func(b *Batch) { b.First-- }, "count": func(b *Batch) { b.Count++ }, "check": func(b *Batch) { b.Check++ }, "digest": func(b *Batch) { b.Digest++ },
		"parcel": func(b *Batch) { b.From = nil }, "step": func(b *Batch) { b.From.Step++ }, "run": func(b *Batch) { b.From.Run = "q" },
		"parts": func(b *Batch) { b.From.Parts = nil }, "token": func(b *Batch) { b.From.Parts[0].Token = "q" },
		"routed": func(b *Batch) { b.From.Routed[0]++ }, "cuts": func(b *Batch) { b.From.Cuts[0].Offset++ },
		"two": func(b *Batch) { b.First, b.Offset = b.Offset, b.First },
	} {
		b := whole
		b.From = parcel()
		change(&b)
		require.ErrorIs(t, b.Verify(), ErrDamaged, name)
		require.ErrorIs(t, b.After(2, 20).Verify(), ErrDamaged, name)
		require.ErrorIs(t, b.Upto(2, 20).Verify(), ErrDamaged, name)
		require.ErrorIs(t, b.With(nil).Verify(), ErrDamaged, name)
	}
	for _, made := range []Batch{whole.After(2, 20), whole.Upto(2, 20), whole.With(nil)} {
		require.NoError(t, made.Verify())
	}
}

func TestBatch_String(t *testing.T) {
	t.Parallel()
	require.Equal(t, "items 12,000–12,999", Batch{First: 12_000, Count: 1000}.String())
	require.Equal(t, "item 4,711", Batch{First: 4711, Count: 1}.String())
	require.Equal(t, "items 0–1", Batch{Count: 2}.String())
}
