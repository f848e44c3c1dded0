package inputs

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
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
	text := strings.Repeat("x", 10*stdinBlock)
	n := &Inputs{standard: strings.NewReader(text)}
	t.Cleanup(n.Close)
	var s Source
	ref := ledger.Ref{Job: "job", Run: "run"}
	require.NoError(t, n.giveStdin(t.Context(), dir, ref, &s))

	first := n.stdinChunks(dir, s.Spool)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, first.chunk(ctx, 0), context.Canceled)
	(&planner{spoolers: map[int]chunker{0: first}}).Close()

	require.NoError(t, n.stdinChunks(dir, s.Spool).chunk(t.Context(), 0))
	require.ErrorIs(t, n.stdinChunks(dir, s.Spool).chunk(t.Context(), 1), io.EOF)
	data, err := dir.Get(t.Context(), SpoolKey(s.Spool, 0))
	require.NoError(t, err)
	require.Len(t, data, len(text))
}
