package devserver

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/temporal/search"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/primitives"
)

func requireRunning(t *testing.T, c client.Client, id string) {
	t.Helper()
	d, err := c.DescribeWorkflowExecution(t.Context(), id, "")
	require.NoError(t, err)
	require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_RUNNING, d.WorkflowExecutionInfo.Status)
}

func TestStartInMemory(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	require.Empty(t, s.UIURL())
	require.Equal(t, "default", s.Namespace())
	host, port, err := net.SplitHostPort(s.Address())
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)
	require.NotEqual(t, "0", port)

	c := dial(t, s)
	startWaiting(t, c, "w")
	requireRunning(t, c, "w")
}

func TestStartMakesTheNamespace(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{Namespace: "photos", Retention: 48 * time.Hour})
	require.Equal(t, "photos", s.Namespace())
	c := dial(t, s)
	d, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "photos"})
	require.NoError(t, err)
	require.Equal(t, 48*time.Hour, d.Config.WorkflowExecutionRetentionTtl.AsDuration())
	startWaiting(t, c, "w")
}

func TestRestartKeepsState(t *testing.T) {
	t.Parallel()
	// Characters that mean something in a file: URI.
	dir := filepath.Join(t.TempDir(), "50% done? #1", "state")
	first := setup(t, Options{Dir: dir, PowerSafe: true})
	c := dial(t, first)
	startWaiting(t, c, "w")
	c.Close()
	first.Stop()

	require.FileExists(t, filepath.Join(dir, databaseFile))
	require.NoFileExists(t, filepath.Join(dir, databaseFile+"-wal"), "Stop folds the log into the database")
	if runtime.GOOS != "windows" {
		for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, databaseFile): 0o600} {
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, want, info.Mode().Perm(), path)
		}
	}

	second := setup(t, Options{Dir: dir})
	c = dial(t, second)
	requireRunning(t, c, "w")
	// A namespace that exists keeps its retention.
	d, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "default"})
	require.NoError(t, err)
	require.Equal(t, DefaultRetention, d.Config.WorkflowExecutionRetentionTtl.AsDuration())
}

// A directory that is removed and used again is a new one, even though the
// server's pool would like to give back the connection to the old file.
func TestRestartOnRemovedDirectoryStartsAfresh(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	first := setup(t, Options{Dir: dir})
	c := dial(t, first)
	startWaiting(t, c, "w")
	c.Close()
	first.Stop()
	require.NoError(t, os.RemoveAll(dir))

	second := setup(t, Options{Dir: dir})
	_, err := dial(t, second).DescribeWorkflowExecution(t.Context(), "w", "")
	require.ErrorAs(t, err, new(*serviceerror.NotFound))
	require.FileExists(t, filepath.Join(dir, databaseFile))
}

func TestServersSideBySide(t *testing.T) {
	t.Parallel()
	a, b := setup(t, Options{UIPort: AnyPort}), setup(t, Options{Dir: t.TempDir(), UIPort: AnyPort})
	require.NotEqual(t, a.Address(), b.Address())
	require.NotEqual(t, a.UIURL(), b.UIURL())
	inA, inB := dial(t, a), dial(t, b)
	startWaiting(t, inA, "w")
	requireRunning(t, inA, "w")
	_, err := inB.DescribeWorkflowExecution(t.Context(), "w", "")
	require.ErrorAs(t, err, new(*serviceerror.NotFound))
}

func TestStopReleasesEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := setup(t, Options{Dir: dir, UIPort: AnyPort})
	ui := strings.TrimPrefix(s.UIURL(), "http://")
	s.Stop()
	s.Stop()
	for _, address := range []string{s.Address(), ui} {
		l, err := net.Listen("tcp", address)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
	holder, err := Holder(dir)
	require.NoError(t, err)
	require.Nil(t, holder)
}

func TestStartFailsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := filepath.Join(t.TempDir(), "state")
	_, err := Start(ctx, Options{Dir: dir, Logger: silent})
	require.ErrorIs(t, err, context.Canceled)
	require.NoDirExists(t, dir)
}

func TestStartReportsAnUnusableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Start(t.Context(), Options{Dir: filepath.Join(file, "state"), Logger: silent})
	require.ErrorContains(t, err, "file")
}

func TestWorkflowRuns(t *testing.T) {
	t.Parallel()
	var out safeBuffer
	s := setup(t, Options{Dir: t.TempDir(), UIPort: AnyPort, Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError}))})
	c := dial(t, s)
	work(t, c, &greeter{})
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: queue}, greet, "world")
	require.NoError(t, err)
	var answer string
	require.NoError(t, run.Get(contextWithPatience(t), &answer))
	require.Equal(t, "hello world", answer)
	require.Empty(t, out.String())
}

// D10: the server of this version understands the list of jobs in trouble.
func TestD10_ListOfTrouble(t *testing.T) {
	t.Parallel()
	c := dial(t, setup(t, Options{SearchAttributes: search.Types()}))
	for _, query := range []string{jobs.JobsQuery, jobs.TroubleQuery} {
		found, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		require.NoError(t, err, query)
		require.Empty(t, found.GetExecutions())
	}
}

// safeBuffer is a buffer for loggers of many goroutines.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func BenchmarkStart(b *testing.B) {
	start := func(b *testing.B, dir func() string) {
		for b.Loop() {
			b.StopTimer()
			o := Options{Dir: dir(), UIPort: AnyPort, Logger: silent}
			b.StartTimer()
			s, err := Start(b.Context(), o)
			b.StopTimer()
			require.NoError(b, err)
			s.Stop()
			b.StartTimer()
		}
	}
	b.Run("memory", func(b *testing.B) { start(b, func() string { return "" }) })
	b.Run("new file", func(b *testing.B) { start(b, b.TempDir) })
	b.Run("old file", func(b *testing.B) {
		dir := b.TempDir()
		s, err := Start(b.Context(), Options{Dir: dir, Logger: silent})
		require.NoError(b, err)
		s.Stop()
		start(b, func() string { return dir })
	})
}

// Without its own worker a server takes on workflows; that worker's queue has nobody who asks it.
func TestNoSystemWorker(t *testing.T) {
	t.Parallel()
	polled := func(c client.Client) bool {
		queue, err := c.DescribeTaskQueue(t.Context(), primitives.PerNSWorkerTaskQueue, enums.TASK_QUEUE_TYPE_WORKFLOW)
		return err == nil && len(queue.Pollers) > 0
	}
	without := dial(t, setup(t, Options{NoSystemWorker: true}))
	startWaiting(t, without, "w")
	requireRunning(t, without, "w")
	with := dial(t, setup(t, Options{}))
	require.Eventually(t, func() bool { return polled(with) }, patience, time.Millisecond)
	require.False(t, polled(without))
}
