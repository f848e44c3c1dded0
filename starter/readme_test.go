package starter_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/test/pytest"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// 14.17: every line of the README's first commands can be pasted in a fresh clone, and ends as is said.
func TestReadme_TryIt(t *testing.T) {
	t.Parallel()
	tool(t, "timeout", "awk")
	b := setup(t)
	b.clone()
	blocks := fenced(section(t, document(t, "README.md"), "## Try it"), "sh")
	require.NotContains(t, strings.Join(blocks, ""), "#", "not every interactive shell knows comments")
	const kill, fail = "timeout -s KILL 3 stint run --exec cat --job-rate 1500 examples/data/birdstrikes.csv -o again.jsonl", " -o birds.jsonl"
	p := b.paste(blocks, kill, kill+" # exit status 137", fail, fail+" # exit status 3").exits(starter.ExitOK)
	for _, name := range []string{"risk.jsonl", "again.jsonl", "birds.jsonl"} {
		require.Equal(t, 10_000, b.lines(name), name)
	}
	require.Contains(t, p.stderr.String(), "continuing run-")
	require.Contains(t, p.stderr.String(), "9,997 items ok, 3 failed")
}

// Install stands before what is to be pasted, and says what it costs. The first screen has a line for each kind of
// handler.
func TestReadme_Install(t *testing.T) {
	t.Parallel()
	readme := document(t, "README.md")
	before, _, _ := strings.Cut(readme, "\n## Try it\n")
	require.Contains(t, before, "go install .")
	first, _, _ := strings.Cut(before, "\n## Install\n")
	for _, flag := range []string{"--exec", "--each", "--http", "--serve"} {
		require.Contains(t, first, "stint run "+flag)
	}
	install := section(t, readme, "## Install")
	for _, part := range []string{"go install .", "go build -o stint .", "docker build -t stint .", "first build", "GB", "minutes", "go test -timeout 2h ./..."} {
		require.Contains(t, install, part)
	}
}

// TestD55: beside twenty other processes on two cores, this package needs more than half an hour. Whoever follows a
// document has two.
func TestD55_TheTestsHaveTime(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "Makefile", ".ci/run"} {
		require.Contains(t, document(t, name), "test -timeout 2h ./...", name)
	}
}

// 14.17: the Go snippets are files that compile as they stand, and the first is a whole program.
func TestReadme_Go(t *testing.T) {
	t.Parallel()
	dir, err := module()
	require.NoError(t, err)
	snippets := fenced(document(t, "README.md"), "go")
	require.Len(t, snippets, 2)
	for i, snippet := range snippets {
		name := "readme" + itoa(i)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "risk.go"), []byte(snippet), 0o600))
		inModule(t, "vet", "./"+name)
	}
	b := setup(t)
	b.clone()
	risk := b.path("risk")
	inModule(t, "build", "-ldflags", "-s -w", "-o", risk, "./readme0")
	b.spawnCommand(exec.Command(risk, "run", "examples/data/birdstrikes.csv", "-o", "risk.jsonl")).exits(starter.ExitOK)
	require.Equal(t, 10_000, b.lines("risk.jsonl"))
	require.True(t, strings.HasPrefix(b.read("risk.jsonl"), `{"airport":"BARKSDALE AIR FORCE BASE ARPT","severe":false}`+"\n"))
}

// The Python snippet runs as it stands, too.
func TestReadme_Python(t *testing.T) {
	t.Parallel()
	python := pytest.Find(t)
	snippets := fenced(document(t, "README.md"), "python")
	require.Len(t, snippets, 1)
	b := setup(t)
	b.clone()
	b.write("score.py", snippets[0])
	b.stint("run", "--serve", python+" score.py", "--env", "PYTHONPATH=python", "examples/data/birdstrikes.csv", "-o", "scores.jsonl").exits(starter.ExitOK)
	require.Equal(t, 10_000, b.lines("scores.jsonl"))
}

// What documents point to exists: files, headings and pictures, which are small.
func TestDocs_Links(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)
	pages, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	require.NoError(t, err)
	names := []string{"README.md", "examples/api/README.md"}
	for _, page := range pages {
		names = append(names, "docs/"+filepath.Base(page))
	}
	for _, name := range names {
		for _, found := range link.FindAllStringSubmatch(document(t, name), -1) {
			to := found[1]
			if strings.Contains(to, "://") {
				continue
			}
			path := filepath.Join(root(t), filepath.Dir(name), to)
			if to == "" {
				path = filepath.Join(root(t), name)
			}
			info, err := os.Stat(path)
			require.NoError(t, err, "%s points to %s", name, to)
			if anchor := strings.TrimPrefix(found[2], "#"); anchor != "" {
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Contains(t, anchors(string(text)), anchor, "%s points to %s#%s", name, to, anchor)
			}
			if strings.Contains(to, "pictures/") {
				require.Less(t, info.Size(), int64(200<<10), to)
			}
		}
	}
}

// anchors are those of a document's headings, as GitHub makes them.
func anchors(text string) (all []string) {
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}
