package starter

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// However much is logged, the log takes twice its limit at most, and what was logged last is there.
func TestRunLog_IsBounded(t *testing.T) {
	t.Parallel()
	l := &runLog{state: filepath.Join(t.TempDir(), "state")}
	require.NoDirExists(t, l.state)
	line := append(bytes.Repeat([]byte("x"), 1<<20-1), '\n')
	for i := range 55 {
		line[0] = byte('a' + i%26)
		n, err := l.Write(line)
		require.NoError(t, err)
		require.Len(t, line, n)
	}
	require.NoError(t, l.close())
	var total int64
	for _, name := range []string{logName, logName + ".1"} {
		info, err := os.Stat(filepath.Join(l.state, name))
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(maxLog))
		total += info.Size()
	}
	require.GreaterOrEqual(t, total, int64(maxLog))
	data, err := os.ReadFile(filepath.Join(l.state, logName))
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(data, line))
	_, err = l.Write(line)
	require.ErrorIs(t, err, os.ErrClosed)
	entries, err := os.ReadDir(l.state)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}
