package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	for _, of := range []Identity{
		{Worker: "mill-4711"},
		{Worker: "mill-4711", Pool: "risk"},
		{Worker: "mill-4711", Slots: 4, Process: "table:4711:1"},
		{Worker: "mill-4711", Slots: 4, Program: "v1.2.3 (abcdef)", Version: "v2", Process: "table:4711:1"},
	} {
		require.Equal(t, of, ParseIdentity(of.String()))
	}
	require.Equal(t, Identity{Worker: "4711@mill@"}, ParseIdentity("4711@mill@"), "not of stint")
}
