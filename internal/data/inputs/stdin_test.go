package inputs

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// A reader that was closed ends with an error, which is not the input's end.
func TestStdin_ReadAfterClose(t *testing.T) {
	t.Parallel()
	s := readStdin(strings.NewReader(strings.Repeat("x", 10*stdinBlock)))
	s.close()
	for {
		n, err := s.Read(make([]byte, stdinBlock))
		if n == 0 {
			require.ErrorIs(t, err, errClosing)
			return
		}
	}
}

// The standard input outlives the planner that has begun to read it.
func TestStdin_OutlivesItsPlanner(t *testing.T) {
	t.Parallel()
	dir, err := (&store.Access{}).Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	text := strings.Repeat("x", 10*int(SpoolChunk)+1)
	n := &Inputs{standard: strings.NewReader(text)}
	t.Cleanup(n.Close)
	var s wire.Source
	ref := wire.Ref{Job: "job", Run: "run"}
	require.NoError(t, n.giveStdin(t.Context(), dir, ref, &s))

	first := n.stdinChunks(dir, s.Spool)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, first.reach(ctx, 0, nil), context.Canceled)
	(&planner{spoolers: map[int]chunker{0: first}}).Close()

	require.NoError(t, n.stdinChunks(dir, s.Spool).reach(t.Context(), 0, nil))
	require.ErrorIs(t, n.stdinChunks(dir, s.Spool).reach(t.Context(), int64(len(text)), nil), io.EOF)
	data, err := io.ReadAll(OpenSpool(t.Context(), dir, s.Spool, 0, -1))
	require.NoError(t, err)
	require.Equal(t, text, string(data))
}
