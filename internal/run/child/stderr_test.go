package child

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// B12: no message of a program reaches the log whole if it is long, nor do its fields, and in a second
// only so many bytes do.
func TestStderrLog_BoundsMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := NewStderrLog(slog.New(slog.NewTextHandler(&out, nil)))
		long := strings.Repeat("ä", 1<<19)
		fields := map[string]any{"a": long, "b": []any{long, long}, "c": 1.5, "d": nil, strings.Repeat("n", 1<<20): "x"}
		for range 20 {
			s.Message(slog.LevelWarn, long, Fields(fields)...)
		}
		require.Less(t, out.Len(), 20*2*maxLogMessage)
		require.Contains(t, out.String(), "c=1.5")
		out.Reset()
		for range 1000 {
			s.Message(slog.LevelInfo, long[:maxLogLine])
		}
		require.Less(t, out.Len(), 2*maxLoggedBytes)
		time.Sleep(time.Second)
		out.Reset()
		s.Message(slog.LevelInfo, "again")
		require.Contains(t, out.String(), "lines left out")
		require.Contains(t, out.String(), "msg=again")
	})
}

func TestFields(t *testing.T) {
	t.Parallel()
	require.Empty(t, Fields(nil))
	require.Equal(t, []any{"a", "x", "b", `{"k":[1]}`, "c", true}, Fields(map[string]any{"b": map[string]any{"k": []any{1.0}}, "a": "x", "c": true}))
	many := map[string]any{}
	for i := range 1000 {
		many[fmt.Sprintf("f%03d", i)] = i%2 == 0
	}
	got := Fields(many)
	require.Len(t, got, 2*maxLogFields+2)
	require.Equal(t, []any{"fields_left_out", 1000 - maxLogFields}, got[2*maxLogFields:])
}
