//go:build linux

package main

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// between returns a packet, so far as wires look at it.
func between(source, target netip.Addr) []byte {
	p := make([]byte, 20)
	p[0] = 0x45
	copy(p[12:], source.AsSlice())
	copy(p[16:], target.AsSlice())
	return p
}

func TestConditions_Drops(t *testing.T) {
	t.Parallel()
	host := netip.MustParseAddr("10.77.1.1")
	random := rand.New(rand.NewPCG(1, 1))
	c := conditions{cut: []netip.Addr{temporalAddress}}
	require.True(t, c.drops(between(host, temporalAddress), random))
	require.True(t, c.drops(between(temporalAddress, host), random))
	require.False(t, c.drops(between(host, bucketAddress), random))
	require.True(t, c.drops([]byte{0x60}, random), "not IPv4")
	c, lost := conditions{loss: 0.05}, 0
	for range 10_000 {
		if c.drops(between(host, bucketAddress), random) {
			lost++
		}
	}
	require.InDelta(t, 500, lost, 100)
}

func TestScenarios_AreNamed(t *testing.T) {
	t.Parallel()
	names, rounds := map[string]bool{}, map[round]int{}
	for _, s := range scenarios {
		require.False(t, names[s.name], s.name)
		require.NotNil(t, s.fails, s.name)
		names[s.name] = true
		rounds[s.round]++
	}
	require.NotZero(t, rounds[quick])
	require.LessOrEqual(t, rounds[quick], 4, "CI has two minutes for them")
}

// The clock of this Go can be made wrong.
func TestSkewed(t *testing.T) {
	t.Parallel()
	name, err := timeSource(t.Context())
	require.NoError(t, err)
	original, err := os.ReadFile(name)
	require.NoError(t, err)
	text, err := skewed(string(original))
	require.NoError(t, err)
	require.Contains(t, text, "\tsec += skew\n")
	_, err = skewed("package time\n")
	require.ErrorContains(t, err, "package time of this Go")
}
