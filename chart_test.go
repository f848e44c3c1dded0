package main_test

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// rendered is what these tests read of the chart's objects. deploy/helm/test renders them, and decodes them strictly.
type rendered struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Template struct {
			Spec struct{ Containers []renderedContainer }
		}
		Triggers []struct{ Metadata map[string]string }
	}
}

type renderedContainer struct {
	Name           string
	Args           []string
	LivenessProbe  renderedProbe `yaml:"livenessProbe"`
	ReadinessProbe renderedProbe `yaml:"readinessProbe"`
}

type renderedProbe struct {
	HTTPGet struct{ Path string } `yaml:"httpGet"`
}

// syncedText is text that one goroutine writes while another reads.
type syncedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *syncedText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *syncedText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func readRendered(t *testing.T, name string) (all []rendered) {
	t.Helper()
	file, err := os.Open("deploy/helm/test/testdata/" + name + ".yaml")
	require.NoError(t, err)
	defer file.Close()
	documents := yaml.NewDecoder(file)
	for {
		var o rendered
		if err := documents.Decode(&o); err != nil {
			require.ErrorContains(t, err, "EOF")
			return all
		}
		all = append(all, o)
	}
}

// M7: The program has all flags that the chart gives its containers, and takes their values.
func TestChart_Flags(t *testing.T) {
	t.Parallel()
	commands := map[string]int{}
	for _, o := range readRendered(t, "whole") {
		for _, c := range o.Spec.Template.Spec.Containers {
			commands[c.Args[0]]++
			var out, errs strings.Builder
			code := starter.Execute(t.Context(), starter.Program{
				Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Dir: t.TempDir(), Exit: func(int) {},
			}, append(slices.Clone(c.Args), "--help"))
			require.Equal(t, starter.ExitOK, code, "%q: %s", c.Args, &errs)
		}
	}
	require.Equal(t, map[string]int{"worker": 3, "feed": 1, "watch": 1}, commands)
}

// M7, V1: KEDA counts what waits in the queues that workers poll.
func TestChart_Queues(t *testing.T) {
	t.Parallel()
	objects := readRendered(t, "whole")
	versions := map[string]string{"score": "", "thumbs": "2026.12"}
	for _, o := range objects {
		if o.Kind != "ScaledObject" {
			continue
		}
		pool := strings.TrimPrefix(o.Metadata.Name, "batch-stint-")
		version, known := versions[pool]
		require.True(t, known, pool)
		delete(versions, pool)
		var polled, counted []string
		for _, logic := range wire.Logics() {
			polled = append(polled, wire.AtLogic(wire.PoolQueue(pool), logic), wire.AtLogic(wire.IOQueue(pool), logic), wire.AtLogic(wire.WorkflowQueue, logic))
			if version != "" {
				polled = append(polled, wire.AtLogic(wire.PinnedQueue(pool, version), logic))
			}
		}
		for _, trigger := range o.Spec.Triggers {
			counted = append(counted, trigger.Metadata["taskQueue"])
		}
		require.ElementsMatch(t, polled, counted)
	}
	require.Empty(t, versions)
}

var chartMetricsURL = regexp.MustCompile(`metrics: (http://127\.0\.0\.1:\d+)/metrics`)

// M7: A worker of the chart answers its probes, and ends well when Kubernetes asks it to.
func TestChart_Worker(t *testing.T) {
	t.Parallel()
	server, err := devserver.Start(t.Context(), devserver.Options{})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	objects := readRendered(t, "small")
	i := slices.IndexFunc(objects, func(o rendered) bool { return o.Kind == "Deployment" })
	c := objects[i].Spec.Template.Spec.Containers[0]
	args := slices.Clone(c.Args)
	at := slices.Index(args, "--metrics=0.0.0.0:9090")
	require.Positive(t, at)
	args[at] = "--metrics=127.0.0.1:0"
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	signals, said, ended := make(chan os.Signal, 1), &syncedText{}, make(chan int, 1)
	go func() {
		ended <- starter.Execute(ctx, starter.Program{
			Stdin: strings.NewReader(""), Stdout: said, Stderr: said, Dir: t.TempDir(), Signals: signals,
			Env: []string{"TEMPORAL_ADDRESS=" + server.Address()}, Exit: func(int) {},
		}, args)
	}()
	require.Eventually(t, func() bool { return strings.Contains(said.String(), "serving pool upper") }, 2*time.Minute, 10*time.Millisecond)
	url := chartMetricsURL.FindStringSubmatch(said.String())
	require.NotNil(t, url, said.String())
	for _, path := range []string{c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path} {
		answer, err := http.Get(url[1] + path)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
	}
	signals <- syscall.SIGTERM
	require.Equal(t, starter.ExitOK, <-ended)
}
