package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cmdline "github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// output collects what a command that runs has written.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// The commands of the README probe an address, and record what it answers: also that it is down.
func TestReadme_Probe(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1)%4 == 0 {
			w.WriteHeader(http.StatusBadGateway)
		}
		_, _ = w.Write([]byte("hello")) // the probe sees whether it came
	}))
	defer site.Close()
	server, err := devserver.Start(t.Context(), devserver.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer server.Stop()
	dir := t.TempDir()
	run := func(ctx context.Context, out, errs *output, line string) int {
		argv, err := cmdline.Split(strings.Replace(line, "--every 10s", "--every 50ms", 1))
		require.NoError(t, err)
		return starter.Execute(ctx, starter.Program{
			Stdin: strings.NewReader(""), Stdout: out, Stderr: errs, Dir: dir, Exit: os.Exit,
			Env:     append(os.Environ(), "TEMPORAL_ADDRESS="+server.Address()),
			Handler: worker.Each(Probe{URL: site.URL}.Ask), Options: starter.Options{Name: "probe"},
		}, argv)
	}
	lines := commands(t)
	require.Len(t, lines, 6)
	require.Equal(t, "server", lines[0])
	ctx, cancel := context.WithCancel(t.Context())
	ended, serving := make(chan struct{}), &output{}
	go func() {
		defer close(ended)
		run(ctx, serving, serving, lines[1])
	}()
	defer func() { cancel(); <-ended }()
	require.Eventually(t, func() bool { return strings.Contains(serving.String(), "serving pool") }, time.Minute, 10*time.Millisecond)
	var started, errs output
	require.Equal(t, starter.ExitOK, run(t.Context(), &started, &errs, lines[2]), errs.String())
	require.Equal(t, "uptime\n", started.String())
	require.Eventually(t, func() bool { return asked.Load() >= 10 }, time.Minute, 10*time.Millisecond)
	var out output
	require.Equal(t, starter.ExitOK, run(t.Context(), &out, &errs, lines[3]), errs.String())
	require.Contains(t, out.String(), "every 50ms")
	require.Equal(t, starter.ExitOK, run(t.Context(), &out, &errs, lines[5]), errs.String()) // stopped, so that all is recorded
	var results output
	require.Equal(t, starter.ExitOK, run(t.Context(), &results, &errs, lines[4]), errs.String())
	down := 0
	for i, line := range strings.Split(strings.TrimSpace(results.String()), "\n") {
		var a Answer
		require.NoError(t, json.Unmarshal([]byte(line), &a))
		require.EqualValues(t, i, a.Tick)
		require.EqualValues(t, 5, a.Bytes)
		require.Equal(t, a.Code == http.StatusOK, a.Up)
		if !a.Up {
			down++
		}
	}
	require.Positive(t, down)
}

// commands are the command lines of the README, without the program and what is before it.
func commands(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		command, isOne := strings.CutPrefix(line, "$ ")
		_, argv, ours := strings.Cut(command, "probe ")
		if isOne && ours && !strings.HasPrefix(command, "go ") {
			lines = append(lines, strings.TrimSuffix(strings.TrimSpace(argv), " &"))
		}
	}
	return lines
}

func TestProbe_NoAnswer(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.NotFoundHandler())
	site.Close()
	a, err := Probe{URL: site.URL}.Ask(t.Context(), Tick{Tick: 3})
	require.NoError(t, err)
	require.False(t, a.Up)
	require.NotEmpty(t, a.Error)
	_, err = Probe{}.Ask(t.Context(), Tick{})
	require.ErrorContains(t, err, "PROBE_URL")
}
