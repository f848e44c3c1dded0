package starter

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/local"
	"github.com/stretchr/testify/require"
)

// A job that finds its state held by a process that does not answer, a frozen one say, goes on in a state of its own,
// unless an earlier run of it has left data in the held one.
func TestD48_AStateHeldByAFrozenProcess(t *testing.T) {
	t.Parallel()
	frozen, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections, and says nothing
	require.NoError(t, err)
	defer frozen.Close()
	p := &Program{Dir: t.TempDir(), Stderr: io.Discard}
	r := &running{o: &runOptions{}, p: p, spec: job.Spec{Name: "job"}, state: t.TempDir(), show: progressOf(p, false), logger: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = r.unfinishedIn(ctx, &devserver.HolderInfo{Address: frozen.Addr().String(), Namespace: "default"})
	require.ErrorIs(t, err, errSilent)

	held := &devserver.HeldError{Dir: devserver.StateDir(r.state), PID: 12345}
	unfinished, err := r.unanswered(held, 12345)
	require.NoError(t, err)
	require.False(t, unfinished)
	require.NoError(t, os.MkdirAll(local.StoreDir(r.state, "job"), 0o700))
	unfinished, err = r.unanswered(held, 12345)
	require.ErrorContains(t, err, "kill -CONT 12345")
	require.True(t, unfinished)
}
