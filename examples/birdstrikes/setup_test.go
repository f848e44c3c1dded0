package main

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	worker.ChildMain()
	goleak.VerifyTestMain(m)
}

// setup starts a Temporal server, which ends with the test, and returns an environment that leads
// to it and to no other.
func setup(t *testing.T) []string {
	t.Helper()
	server, err := devserver.Start(t.Context(), devserver.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	return []string{"TEMPORAL_ADDRESS=" + server.Address(), "TEMPORAL_CONFIG_FILE=" + os.DevNull}
}

// serve runs this program's worker until the test ends.
func serve(t *testing.T, env []string, pool string) {
	t.Helper()
	signals := make(chan os.Signal, 2)
	ended := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		ended <- starter.Execute(t.Context(), starter.Program{
			Stdin: strings.NewReader(""), Stdout: &stderr, Stderr: &stderr, Env: env, Dir: t.TempDir(),
			Signals: signals, Exit: os.Exit, Handler: worker.Each(Assess), Options: starter.Options{Name: "birdstrikes"},
		}, []string{"worker", "--pool", pool, "--allow", "all"})
	}()
	t.Cleanup(func() {
		signals <- syscall.SIGTERM
		require.Equal(t, starter.ExitOK, <-ended, stderr.String())
	})
}
