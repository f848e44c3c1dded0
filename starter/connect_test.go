package starter

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/temporal/lookup"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rising is a Temporal server that is not ready for its first requests.
type rising struct {
	workflowservice.UnimplementedWorkflowServiceServer
	refuses  atomic.Int64 // that many more requests
	describe error        // what DescribeNamespace returns once it is ready
	asked    func()       // called by DescribeNamespace, which does not answer then; nil: it does
}

func (r *rising) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{}, nil
}

func (r *rising) DescribeNamespace(ctx context.Context, _ *workflowservice.DescribeNamespaceRequest) (*workflowservice.DescribeNamespaceResponse, error) {
	if r.asked != nil {
		r.asked()
		<-ctx.Done()
	}
	if r.refuses.Add(-1) >= 0 {
		return nil, status.Error(codes.Unavailable, "not enough hosts to serve the request")
	}
	return &workflowservice.DescribeNamespaceResponse{}, r.describe
}

// serve serves at the address, "127.0.0.1:0" is any, and returns it.
func (r *rising) serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, r)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// note is what a program has written.
type note struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *note) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *note) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func TestD36_AWorkerWaitsForItsServer(t *testing.T) {
	t.Parallel()
	server := &rising{}
	server.refuses.Store(1)
	address := server.serve(t)
	said := &note{}
	p := &Program{Stderr: said, Dir: t.TempDir(), Signals: make(chan os.Signal, 1)}
	client, err := (&serverPatience{time.Minute}).dial(t.Context(), p, &connection{address: address}, false)
	require.NoError(t, err)
	client.Close()
	require.Equal(t, 1, strings.Count(said.String(), "\n"))
	require.Contains(t, said.String(), "waiting for the server, until ")
	require.Contains(t, said.String(), "the Temporal server at "+address+" is not ready: not enough hosts")

	server.refuses.Store(1)
	_, err = (&serverPatience{0}).dial(t.Context(), p, &connection{address: address}, false)
	require.ErrorContains(t, err, "is not ready", "0 ends at once")

	server.refuses.Store(1 << 30)
	signals := make(chan os.Signal, 1)
	p.Signals = signals
	signals <- os.Interrupt
	_, err = (&serverPatience{time.Hour}).dial(t.Context(), p, &connection{address: address}, false)
	require.ErrorIs(t, err, errInterrupted)

	_, err = (&serverPatience{-1}).dial(t.Context(), p, &connection{address: address}, false)
	require.ErrorContains(t, err, "--wait-for-server")
}

func TestD36_ASignalDuringARequestEndsTheWait(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 1)
	server := &rising{asked: func() {
		select {
		case signals <- os.Interrupt:
		default:
		}
	}}
	p := &Program{Stderr: &note{}, Dir: t.TempDir(), Signals: signals}
	_, err := (&serverPatience{time.Hour}).dial(t.Context(), p, &connection{address: server.serve(t)}, false)
	require.ErrorIs(t, err, errInterrupted)
}

// What killed commands have left beside a cursor does not stay, and nothing else goes.
func TestResults_RemovesUnfinishedCursors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"at", "at.123.new", "at.0.new", "at.new", "at.x.new", "other.1.new", "at.1.new.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	removeUnfinished(filepath.Join(dir, "at"))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	require.Equal(t, []string{"at", "at.1.new.txt", "at.new", "at.x.new", "other.1.new"}, left)
}

// A --timeout that is over before there is a connection has the exit code of any other.
func TestTimeout_WhileDialling(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	const limit = 50 * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, &limitError{limit})
	defer cancel()
	p := &Program{Stderr: &note{}, Dir: t.TempDir()}
	err = (&connection{address: silent.Addr().String()}).withClient(ctx, p, func(context.Context, *jobs.Client) error {
		t.Error("there is no connection")
		return nil
	})
	var coded *codeError
	require.ErrorAs(t, err, &coded)
	require.Equal(t, ExitTimeout, coded.code)
}

func TestD36_OnlyAServerThatDoesNotAnswerIsWaitedFor(t *testing.T) {
	t.Parallel()
	require.True(t, lookup.Away(fmt.Errorf("dialling: %w", serviceerror.NewUnavailable("x"))))
	require.True(t, lookup.Away(&awayError{cause: context.DeadlineExceeded}))
	require.False(t, lookup.Away(serviceerror.NewPermissionDenied("x", "")))
	require.False(t, lookup.Away(serviceerror.NewNamespaceNotFound("x")))
	require.False(t, lookup.Away(nil))
}

func TestD52_WhoHasNotAnsweredIsNamed(t *testing.T) {
	t.Parallel()
	said := &note{}
	p := &Program{Stderr: said, server: "10.0.0.1:7233"}
	require.Equal(t, ExitFailed, p.report(fmt.Errorf("asking for the report: %w", context.DeadlineExceeded)))
	require.Contains(t, said.String(), "asking for the report: the Temporal server at 10.0.0.1:7233 has taken the request and not answered it in time: its database may be away")
	require.NotContains(t, said.String(), "deadline exceeded")
}
