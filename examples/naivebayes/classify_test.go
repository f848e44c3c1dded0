// Package naivebayes holds only the test of the Python example.
package naivebayes

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cmdline "github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/internal/test/pytest"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// readme returns the README's command to run, and the results that it shows.
func readme(t *testing.T) (argv []string, shown string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "$ stint run ")
	require.True(t, found)
	command, after, _ := strings.Cut(after, "\n")
	argv, err = cmdline.Split("run " + command)
	require.NoError(t, err)
	_, after, found = strings.Cut(after, "$ head -n 3 classes.jsonl\n")
	require.True(t, found)
	shown, _, _ = strings.Cut(after, "$ ")
	return argv, shown
}

// TestReadme: the command of the README gives the results that it shows.
func TestReadme(t *testing.T) {
	t.Parallel()
	pytest.Find(t)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	argv, shown := readme(t)
	dir := t.TempDir()
	output := filepath.Join(dir, "classes.jsonl")
	argv[len(argv)-1] = output
	argv = append(argv, "--quiet", "--ui-port", "0", "--state", filepath.Join(dir, "state"))
	var stderr bytes.Buffer
	code := starter.Execute(t.Context(), starter.Program{
		Stdin: strings.NewReader(""), Stdout: &stderr, Stderr: &stderr, Env: os.Environ(), Dir: root, Exit: os.Exit,
	}, argv)
	require.Zero(t, code, stderr.String())
	results, err := os.ReadFile(output)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(results), shown), "the README shows\n%s", shown)
	require.Equal(t, 10_000, bytes.Count(results, []byte{'\n'}))
}
