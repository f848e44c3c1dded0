package store

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCombine(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	for range 200 {
		n := random.IntN(len(data))
		cut := random.IntN(n + 1)
		got := combine(crc32.Checksum(data[:cut], castagnoli), crc32.Checksum(data[cut:n], castagnoli), int64(n-cut))
		require.Equal(t, crc32.Checksum(data[:n], castagnoli), got)
	}
	require.Equal(t, uint32(7), combine(7, 0, 0))
	require.Equal(t, uint32(7), combine(0, 7, 1<<62))

	// Beyond what can be computed byte by byte: lengths add up.
	const a, b, c = 0x12345678, 0x9abcdef0, 0x0f1e2d3c
	for _, n := range []int64{1 << 31, 1 << 33, 1<<40 + 12345} {
		require.Equal(t, combine(combine(a, b, n), c, n+1), combine(a, combine(b, c, n+1), 2*n+1))
	}
}
