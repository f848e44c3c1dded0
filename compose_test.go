package main_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	cmdline "github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common/dynamicconfig"
	"golang.org/x/mod/modfile"
)

const composeFile = "docker-compose.yml"

// loadCompose loads the file as 'docker compose' does, with all profiles and nobody's environment.
// Unknown keys and references to what is not there are errors.
func loadCompose(t *testing.T, overrides ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions(append([]string{composeFile}, overrides...), cli.WithProfiles([]string{"*"}), cli.WithEnv(nil))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

// composeSteps returns the services that do their work and end: others wait for their success, or
// people run them by hand.
func composeSteps(p *types.Project) map[string]bool {
	steps := map[string]bool{}
	for name, s := range p.Services {
		for on, d := range s.DependsOn {
			if d.Condition == types.ServiceConditionCompletedSuccessfully {
				steps[on] = true
			}
		}
		if len(s.Profiles) > 0 {
			steps[name] = true
		}
	}
	return steps
}

func TestComposeServices(t *testing.T) {
	t.Parallel()
	p := loadCompose(t)
	steps := composeSteps(p)
	for name, s := range p.Services {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if steps[name] {
				require.Equal(t, types.RestartPolicyNo, s.Restart)
				require.Empty(t, s.Ports)
			} else {
				require.Equal(t, types.RestartPolicyUnlessStopped, s.Restart)
				require.NotNil(t, s.HealthCheck)
				require.False(t, s.HealthCheck.Disable)
				require.Greater(t, len(s.HealthCheck.Test), 1)
			}
			for on, d := range s.DependsOn {
				want := types.ServiceConditionHealthy
				if steps[on] {
					want = types.ServiceConditionCompletedSuccessfully
				}
				require.Equal(t, want, d.Condition, "depends on %s", on)
			}
			for _, port := range s.Ports {
				require.Equal(t, "127.0.0.1", port.HostIP, "port %s", port.Published)
			}
			require.Positive(t, s.MemLimit)
			_, tag, _ := strings.Cut(path.Base(s.Image), ":")
			require.NotContains(t, []string{"", "latest", "stable", "main"}, tag, "the image is pinned")
			for _, v := range s.Volumes {
				if v.Type == types.VolumeTypeBind {
					require.True(t, v.ReadOnly)
					_, err := os.Stat(v.Source)
					require.NoError(t, err)
				}
			}
		})
	}
}

// TestComposeVersions holds the images to the versions that go.mod has.
func TestComposeVersions(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	mod, err := modfile.ParseLax("go.mod", data, nil)
	require.NoError(t, err)
	version := map[string]string{}
	for _, r := range mod.Require {
		version[r.Mod.Path] = strings.TrimPrefix(r.Mod.Version, "v")
	}
	var images []string
	for _, s := range loadCompose(t).Services {
		images = append(images, s.Image)
	}
	require.Contains(t, images, "temporalio/server:"+version["go.temporal.io/server"])
	require.Contains(t, images, "temporalio/admin-tools:"+version["go.temporal.io/server"])
	require.Contains(t, images, "temporalio/ui:"+version["github.com/temporalio/ui-server/v2"])

	dockerfile, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	require.Contains(t, string(dockerfile), "FROM golang:"+mod.Go.Version+"-")
}

// TestComposeDynamicConfig has Temporal's own code read the server's settings.
func TestComposeDynamicConfig(t *testing.T) {
	t.Parallel()
	server := loadCompose(t).Services["temporal"]
	name := *server.Environment["DYNAMIC_CONFIG_FILE_PATH"]
	contents, err := os.ReadFile(onHost(t, server, name))
	require.NoError(t, err)
	loaded := dynamicconfig.LoadYamlFile(contents)
	require.Empty(t, loaded.Errors)
	require.Empty(t, loaded.Warnings)
	require.NotEmpty(t, loaded.Map)
}

// TestComposePodman holds what podman needs beside the file to the file: each service has limits, and an image that is
// made without a registry.
func TestComposePodman(t *testing.T) {
	t.Parallel()
	names, err := exec.Command("sh", "deploy/images/build.sh", "--names").Output()
	require.NoError(t, err)
	made := map[string]bool{}
	for name := range strings.FieldsSeq(string(names)) {
		made[strings.NewReplacer("docker.io/library/", "", "docker.io/", "", "localhost/", "").Replace(name)] = true
	}
	for name, s := range loadCompose(t, "deploy/compose.podman.yml").Services {
		require.Contains(t, made, s.Image)
		require.NotZero(t, s.Ulimits["nofile"], name)
		require.Nil(t, s.Build, name)
		if s.HealthCheck != nil {
			require.Nil(t, s.HealthCheck.StartInterval, name)
		}
	}
	dockerfile, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	for line := range strings.Lines(string(dockerfile)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "FROM" && strings.Contains(fields[1], ":") {
			require.Contains(t, made, fields[1])
		}
	}
}

// onHost returns what is mounted at a path of a service's container, and other text as it is.
func onHost(t *testing.T, s types.ServiceConfig, text string) string {
	t.Helper()
	for _, v := range s.Volumes {
		if v.Type == types.VolumeTypeBind && strings.Contains(text, v.Target) {
			return strings.ReplaceAll(text, v.Target, v.Source)
		}
	}
	return text
}

// TestComposeCluster runs the command lines of the file for real, in this process: as many workers
// as it has, and the starter as the comment at its top has it. Only Temporal and the object store
// are others.
func TestComposeCluster(t *testing.T) {
	p := loadCompose(t)
	c := newComposeCluster(t, p)
	workers := p.Services["worker"]
	require.Equal(t, 2, workers.GetScale())
	for range workers.GetScale() {
		c.serve(t, workers)
	}
	for _, args := range composeComment(t, "docker compose run --rm starter ") {
		stdout, code := c.stint(t, nil, args)
		require.Equal(t, starter.ExitOK, code)
		if args[0] == "results" {
			lines := strings.Split(stdout, "\n")
			require.Len(t, lines, 10_001)
			require.Equal(t, `{"airport":"BARKSDALE AIR FORCE BASE ARPT","date":"1990-01-08","total_cost":0,"risk":"moderate"}`, lines[0])
		}
	}
}

// composeCluster stands for the cluster of the file.
type composeCluster struct {
	ctx context.Context
	end context.CancelFunc // of ctx
	env []string
}

func newComposeCluster(t *testing.T, p *types.Project) *composeCluster {
	t.Helper()
	server, err := devserver.Start(t.Context(), devserver.Options{})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	var namespace string
	for name, s := range p.Services {
		if s.Build == nil {
			continue
		}
		require.Equal(t, "temporal:7233", *s.Environment["TEMPORAL_ADDRESS"], name)
		namespace = *s.Environment["TEMPORAL_NAMESPACE"]
		for variable, value := range s.Environment {
			if strings.HasPrefix(variable, "AWS_") {
				t.Setenv(variable, *value)
			}
		}
	}
	t.Setenv("AWS_ENDPOINT_URL", fakeS3(t, p).URL)
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	ctx, end := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(end)
	return &composeCluster{ctx, end, []string{"TEMPORAL_ADDRESS=" + server.Address(), "TEMPORAL_NAMESPACE=" + namespace}}
}

// stint runs a command line and returns what it prints and its exit code.
func (c *composeCluster) stint(t *testing.T, signals chan os.Signal, args []string) (string, int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := starter.Execute(c.ctx, starter.Program{
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: t.TempDir(), Signals: signals,
		Env: c.env, Exit: func(int) {},
	}, args)
	t.Logf("stint %q: %d\n%s", args, code, &stderr)
	return stdout.String(), code
}

// serve runs a worker with the test; it must end well when it is asked to.
func (c *composeCluster) serve(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	var args []string
	for _, arg := range s.Command {
		args = append(args, onHost(t, s, arg))
	}
	signals := make(chan os.Signal, 1)
	ended := make(chan int)
	go func() {
		_, code := c.stint(t, signals, args)
		if code != starter.ExitOK {
			c.end() // nobody shall wait for it
		}
		ended <- code
	}()
	t.Cleanup(func() {
		signals <- syscall.SIGTERM
		require.Equal(t, starter.ExitOK, <-ended)
	})
}

// fakeS3 starts an object store with the bucket, and in it what the file's own step puts there.
func fakeS3(t *testing.T, p *types.Project) *httptest.Server {
	t.Helper()
	backend := s3mem.New()
	step := p.Services["bucket"]
	bucket := *step.Environment["BUCKET"]
	require.NoError(t, backend.CreateBucket(bucket))
	for _, pattern := range []string{"*.csv", "*.jsonl"} {
		files, err := filepath.Glob(filepath.Join(onHost(t, step, "/data"), pattern))
		require.NoError(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			_, err = backend.PutObject(bucket, "in/"+filepath.Base(file), nil, bytes.NewReader(data), int64(len(data)), nil)
			require.NoError(t, err)
		}
	}
	s3 := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(s3.Close)
	return s3
}

// composeComment returns the commands in the file's comments that begin with prefix, without it, as
// a shell splits them.
func composeComment(t *testing.T, prefix string) [][]string {
	t.Helper()
	data, err := os.ReadFile(composeFile)
	require.NoError(t, err)
	text := strings.ReplaceAll(string(data), "\\\n#", "")
	var commands [][]string
	for line := range strings.Lines(text) {
		command, ok := strings.CutPrefix(strings.TrimLeft(strings.TrimSpace(line), "# "), prefix)
		if !ok {
			continue
		}
		argv, err := cmdline.Split(command)
		require.NoError(t, err)
		commands = append(commands, argv)
	}
	require.Len(t, commands, 2)
	return commands
}
