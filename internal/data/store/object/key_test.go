package object

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTempName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "out.jsonl", ".hidden", "a.b.c", "é"} {
		temp := TempName(name)
		require.NotEqual(t, temp, TempName(name))
		got, ok := TempOf(temp)
		require.True(t, ok, temp)
		require.Equal(t, name, got)
		require.True(t, Reserved(temp))
	}
	for _, name := range []string{"", ".", ".tmp", "out.tmp", ".out.tmp", ".out.ABCDEFGHIJKLM.tmp", "out.abcdefghijklm.tmp", "..abcdefghijklm.tmp", ".out.abcdefghijkl.tmp"} {
		_, ok := TempOf(name)
		require.False(t, ok, "%q", name)
	}
	long := TempName(strings.Repeat("é", 120))
	require.LessOrEqual(t, len(long), 255)
	name, ok := TempOf(long)
	require.True(t, ok)
	require.Equal(t, strings.Repeat("é", 100), name)
}
