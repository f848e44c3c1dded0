package naivebayes

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cmdline "github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/internal/test/pytest"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// step is a command of the README, and what it shows of its output.
type step struct {
	argv  []string
	shown string
}

// feedSteps are the commands of the README's part on feeds.
func feedSteps(t *testing.T) []step {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, part, found := strings.Cut(string(text), "## Strikes as they are reported")
	require.True(t, found)
	_, block, _ := strings.Cut(part, "```console\n")
	block, _, _ = strings.Cut(block, "```")
	var steps []step
	for _, text := range strings.Split(block, "$ stint ")[1:] {
		command, shown, _ := strings.Cut(text, "\n")
		argv, err := cmdline.Split(strings.TrimSuffix(command, " &"))
		require.NoError(t, err)
		steps = append(steps, step{argv, shown})
	}
	require.Len(t, steps, 6)
	return steps
}

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

// TestReadme_Feed: the commands of the README classify strikes as they are put.
func TestReadme_Feed(t *testing.T) {
	t.Parallel()
	pytest.Find(t)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	server, err := devserver.Start(t.Context(), devserver.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer server.Stop()
	dir := t.TempDir()
	place := func(argv []string) []string { // outputs lie in a directory of the test
		argv = slices.Clone(argv)
		for i, word := range argv {
			switch word {
			case "classified.jsonl":
				argv[i] = filepath.Join(dir, word)
			case ".":
				argv = slices.Insert(argv, i+1, "--allow", dir)
			}
		}
		return argv
	}
	run := func(ctx context.Context, argv []string, out, errs *output) int {
		return starter.Execute(ctx, starter.Program{
			Stdin: strings.NewReader(""), Stdout: out, Stderr: errs, Dir: root, Exit: os.Exit,
			Env: append(os.Environ(), "TEMPORAL_ADDRESS="+server.Address()),
		}, place(argv))
	}
	steps := feedSteps(t)
	require.Equal(t, "server", steps[0].argv[0])
	ctx, cancel := context.WithCancel(t.Context())
	ended, serving := make(chan struct{}), &output{}
	go func() {
		defer close(ended)
		run(ctx, steps[1].argv, serving, serving)
	}()
	defer func() { cancel(); <-ended }()
	require.Eventually(t, func() bool { return strings.Contains(serving.String(), "serving pool") }, time.Minute, 10*time.Millisecond)

	codes := []int{starter.ExitOK, starter.ExitOK, starter.ExitSomeFailed, starter.ExitSomeFailed}
	for i, s := range steps[2:] {
		var out, errs output
		require.Equal(t, codes[i], run(t.Context(), s.argv, &out, &errs), "%v\n%s", s.argv, errs.String())
		shown, failure, failed := strings.Cut(s.shown, "4 (item 4): ")
		require.Equal(t, shown, out.String())
		if failed {
			require.Contains(t, errs.String(), failure)
		}
	}
	classified, err := os.ReadFile(filepath.Join(dir, "classified.jsonl"))
	require.NoError(t, err)
	require.Equal(t, 5, bytes.Count(classified, []byte{'\n'}))
}
