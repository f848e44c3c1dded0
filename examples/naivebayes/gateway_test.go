package naivebayes

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/internal/test/programs"
	"github.com/stint-run/stint/internal/test/pytest"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// pageSteps are the shell commands of the README's part on the gateway, by their first word, and what it shows of their
// output.
func pageSteps(t *testing.T) map[string][2]string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, part, found := strings.Cut(string(text), "## From a web page")
	require.True(t, found)
	_, block, _ := strings.Cut(part, "```console\n")
	block, _, _ = strings.Cut(block, "```")
	steps := map[string][2]string{}
	for _, text := range strings.Split("\n"+block, "\n$ ")[1:] {
		command, shown, _ := strings.Cut(text, "\n")
		name, _, _ := strings.Cut(command, " ")
		steps[name] = [2]string{command, strings.TrimSuffix(shown, "\n")}
	}
	require.Len(t, steps, 3)
	return steps
}

var gatewayURL = regexp.MustCompile(`gateway: (http://127\.0\.0\.1:\d+)\n`)

// anyItem is an item's ordinal: items of one request are accepted in any order.
var anyItem = regexp.MustCompile(`"item":\d+,`)

// TestReadme_Gateway: curl, and Python, have strikes classified as they are put, as the README shows.
func TestReadme_Gateway(t *testing.T) {
	t.Parallel()
	pytest.Find(t)
	steps := pageSteps(t)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	server, err := devserver.Start(t.Context(), devserver.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer server.Stop()
	dir := t.TempDir()
	run := func(ctx context.Context, out *output, argv ...string) int {
		return starter.Execute(ctx, starter.Program{
			Stdin: strings.NewReader(""), Stdout: out, Stderr: out, Dir: root, Exit: os.Exit,
			Env: append(os.Environ(), "TEMPORAL_ADDRESS="+server.Address()),
		}, argv)
	}
	ctx, cancel := context.WithCancel(t.Context())
	background := func(says string, argv ...string) *output {
		out, ended := &output{}, make(chan struct{})
		go func() {
			defer close(ended)
			run(ctx, out, argv...)
		}()
		t.Cleanup(func() { cancel(); <-ended })
		require.Eventually(t, func() bool { return strings.Contains(out.String(), says) }, time.Minute, 10*time.Millisecond)
		return out
	}
	background("serving pool", "worker", "--pool", "strikes", "--allow", root, "--allow", dir, "--serve", "python3 examples/naivebayes/classify.py", "--slots", "2")
	url := gatewayURL.FindStringSubmatch(background("gateway: ", "feed", "serve", "--listen", "127.0.0.1:0").String())[1]
	require.Equal(t, starter.ExitOK, run(t.Context(), &output{}, "start", "--feed", "--name", "strikes", "--pool", "strikes", "-o", filepath.Join(dir, "classified.jsonl")))

	for _, name := range []string{"curl", "python3"} {
		t.Run(name, func(t *testing.T) {
			programs.Find(t, name)
			step := steps[name]
			limited, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			shell := exec.CommandContext(limited, "sh", "-c", strings.ReplaceAll(step[0], "http://127.0.0.1:8080", url))
			shell.Dir = root
			shell.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			out, err := shell.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Equal(t, anyItem.ReplaceAllString(step[1], ""), anyItem.ReplaceAllString(strings.TrimSuffix(string(out), "\n"), ""))
		})
	}
	cancel()
}
