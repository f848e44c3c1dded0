package devserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.uber.org/goleak"
)

const (
	// childDir, in the environment, makes the test binary a process that holds a
	// server on this directory until it is killed.
	childDir = "STINT_TEST_DEVSERVER_DIR"

	// patience bounds every wait in these tests. It is long because it only
	// matters when something is broken.
	patience = 3 * time.Minute
)

// TestMain checks that stopped servers leave no goroutine behind. The Temporal
// server leaves none by itself; an entry here needs a reason.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		serveChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// serveChild prints the address of its server and waits to be killed.
func serveChild(dir string) {
	s, err := Start(context.Background(), Options{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Address())
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Stop()
}

// child runs a server in another process, which is dead when the test ends.
func child(t *testing.T, dir string) (address string, process *exec.Cmd) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(contextWithPatience(t), exe)
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line), cmd
}

var silent = slog.New(slog.DiscardHandler)

// setup starts a server that is stopped with the test.
func setup(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Logger == nil {
		o.Logger = silent
	}
	s, err := Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// dial returns a client that is closed with the test.
func dial(t *testing.T, s *Server) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{
		HostPort:  s.Address(),
		Namespace: s.Namespace(),
		Logger:    log.NewStructuredLogger(silent),
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// startWaiting starts a workflow that waits in a queue without a worker.
func startWaiting(t *testing.T, c client.Client, id string) {
	t.Helper()
	_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "nobody"}, "waiting")
	require.NoError(t, err)
}

func contextWithPatience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
