package starter_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// The files of a module that uses stint as anybody's module would.
var moduleFiles = map[string]string{
	"main.go": `package main

import (
	"context"
	"errors"
	"strings"

	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
)

func main() { starter.Main(worker.Each(upper)) }

func upper(_ context.Context, item string) (string, error) {
	if item == "bad" {
		return "", errors.New("no upper case")
	}
	return strings.ToUpper(item), nil
}
`,
	"main_test.go": `package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
)

func TestLocalRun(t *testing.T) {
	input, output := filepath.Join(t.TempDir(), "in.txt"), filepath.Join(t.TempDir(), "out.txt")
	if err := os.WriteFile(input, []byte("a\nbad\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := local.Run(t.Context(), job.Spec{Files: &job.Files{Input: []string{input}}, Output: output}, worker.Each(upper), local.Options{})
	if err != nil || report.State != job.Completed || report.OK != 2 || report.Failed != 1 {
		t.Fatal(report, err)
	}
	if got, err := os.ReadFile(output); err != nil || string(got) != "\"A\"\n\"B\"\n" {
		t.Fatalf("%q %v", got, err)
	}
}
`,
	"embed/main.go": `package main

import (
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
)

var (
	_ = jobs.NewClient
	_ = worker.New
)

func main() {}
`,
}

// module writes such a module, once, which needs what this one needs and is built offline.
var module = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "stint-module-*")
	if err != nil {
		return "", err
	}
	moduleDir = dir
	root, err := filepath.Abs("..")
	if err != nil {
		return "", err
	}
	own, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return "", err
	}
	text := strings.Replace(string(own), "module github.com/stint-run/stint", "module example.com/upper", 1)
	text += "\nrequire github.com/stint-run/stint v0.0.0\n\nreplace github.com/stint-run/stint => " + root + "\n"
	files := map[string]string{"go.mod": text, "go.sum": string(sums)}
	maps.Copy(files, moduleFiles)
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
})

var moduleDir string

// inModule runs the go command in the module, offline, and returns what it prints.
func inModule(t *testing.T, args ...string) string {
	t.Helper()
	dir, err := module()
	require.NoError(t, err)
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "go %q\n%s", args, out)
	return string(out)
}

// A program whose main is one line has all the commands: embedded, and on a cluster.
func TestMain_MakesAWholeProgram(t *testing.T) {
	t.Parallel()
	b := setup(t)
	program := b.path("upper")
	inModule(t, "build", "-ldflags", "-s -w", "-o", program, ".")
	run := func(args ...string) *process {
		p := b.spawnCommand(exec.Command(program, args...))
		p.await()
		return p
	}
	b.write("in.txt", "a\nbad\nb\n")
	const want = "\"A\"\n\"B\"\n"
	embedded := run("run", "in.txt", "-o", "embedded.txt").exits(starter.ExitSomeFailed)
	require.Contains(t, embedded.stderr.String(), "2 items ok, 1 failed")
	require.Equal(t, want, b.read("embedded.txt"))

	server := b.spawnCommand(exec.Command(program, "server", "--ui-port", "0"))
	server.says("Temporal server: ")
	started := run("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "cluster.txt").exits(starter.ExitOK)
	require.Contains(t, started.stderr.String(), "start one with 'upper worker --pool p --allow ROOT'")
	serving := b.spawnCommand(exec.Command(program, "worker", "--pool", "p", "--allow", b.dir))
	serving.says("serving pool p\n")
	run("watch", "nightly").exits(starter.ExitSomeFailed)
	require.Equal(t, want, b.read("cluster.txt"))
	run("start", "--pool", "p", "--name", "waited", "in.txt", "-o", "waited.txt", "--wait").exits(starter.ExitSomeFailed)
	require.Equal(t, want, b.read("waited.txt"))

	serving.signal(syscall.SIGTERM)
	serving.exits(starter.ExitOK)
	server.signal(syscall.SIGTERM)
	server.exits(starter.ExitOK)
}

func TestModule_RunsAJobInATest(t *testing.T) {
	t.Parallel()
	require.Contains(t, inModule(t, "test", "-ldflags", "-s -w", "-v", "-run", "TestLocalRun", "."), "--- PASS: TestLocalRun")
}

// A program that serves a pool and starts jobs, no more, does not contain the server.
func TestModule_WorkerLinksNoServer(t *testing.T) {
	t.Parallel()
	deps := strings.Fields(inModule(t, "list", "-deps", "./embed"))
	require.Contains(t, deps, "github.com/stint-run/stint/worker")
	for _, dep := range deps {
		require.False(t, strings.HasPrefix(dep, "go.temporal.io/server"), dep)
		require.NotContains(t, []string{
			"github.com/stint-run/stint/internal/temporal/devserver", "github.com/stint-run/stint/local", "github.com/stint-run/stint/starter",
		}, dep)
	}
}
