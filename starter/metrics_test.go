package starter_test

import (
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-run/stint/internal/test/metricnames"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

var metricsURL = regexp.MustCompile(`metrics: (http://127\.0\.0\.1:\d+)/metrics`)

// get asks the endpoint that the command has printed.
func (c *command) get(path string) (status int, body string) {
	c.t.Helper()
	c.says("metrics: ")
	found := metricsURL.FindStringSubmatch(c.stderr.String())
	require.NotNil(c.t, found, c.stderr.String())
	response, err := http.Get(found[1] + path)
	require.NoError(c.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	return response.StatusCode, string(text)
}

// M1, M6: --metrics of a worker.
func TestM1_WorkerMetrics(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", "a\nb\nc\n")
	w := b.worker("upper", "--exec", "tr a-z A-Z", "--metrics", "0")
	b.stint("start", "--pool", "upper", "--name", "nightly", "in.txt", "-o", "out.txt", "--wait").exits(starter.ExitOK)
	status, text := w.get("/metrics")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `stint_items_total{job="nightly",outcome="ok",pool="upper"} 3`)
	ofTemporal := metricnames.Listed(t, func(name string) bool { return strings.HasPrefix(name, "temporal_") })
	require.NotEmpty(t, ofTemporal)
	require.Subset(t, metricnames.In(t, text), ofTemporal)
	status, text = w.get("/health")
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, text, `"healthy":true`)
}

// M4: 'stint watch --metrics' shows jobs, as their reports have them.
func TestM4_Jobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("text.txt", "a\nb\nc\n")
	b.worker("upper", "--exec", "tr a-z A-Z")
	b.stint("start", "--pool", "upper", "--name", "nightly", "text.txt", "-o", "out.txt", "--wait").exits(starter.ExitOK)
	b.stint("start", "--pool", "nobody", "--name", "waiting", "text.txt", "-o", "out2.txt").exits(starter.ExitOK)
	m := b.start("watch", "--metrics", "0", "--every", "1s")
	var text string
	eventually(t, "both jobs", func() bool {
		_, text = m.get("/metrics")
		return strings.Contains(text, `stint_job_trouble{job="waiting",kind="unserved",pool="nobody"} 1`) && strings.Contains(text, `job="nightly"`)
	})
	require.Contains(t, text, `stint_job_items{job="nightly",pool="upper",state="ok"} 3`)
	require.Contains(t, text, `stint_job_state{job="nightly",pool="upper",state="completed"} 1`)
	require.Contains(t, text, `stint_jobs{pool="nobody",state="running"} 1`)
	status, _ := m.get("/readyz")
	require.Equal(t, http.StatusOK, status)
	m.signals <- syscall.SIGTERM
	m.exits(starter.ExitOK)
}

// M4: wrong flags are refused before a server is asked.
func TestM4_Refused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for line, want := range map[string]string{
		"--metrics here": `--metrics "here"`, "--metrics 0 --every 1ms": "use a second or more", "--metrics 0 --most 0": "use 1 to 10000",
		"nightly --metrics 0": "leave out nightly", "nightly --every 1m": "it is for --metrics", "--metrics 0 --json": "it is not for --metrics",
	} {
		b.refused(starter.ExitUsage, append([]string{"watch"}, strings.Fields(line)...), want)
	}
}

// M1: --metrics of `stint run`, while it runs.
func TestM1_RunMetrics(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	running := b.start("run", "--exec", b.gated(), "in.txt", "-o", "out.txt", "--name", "gated", "--metrics", ":0")
	eventually(t, "the filter", func() bool { return b.lines("started") > 0 })
	_, text := running.get("/metrics")
	require.Contains(t, text, `stint_calls_in_flight{job="gated",pool="gated"} 1`)
	b.open()
	running.exits(starter.ExitOK)
}

// M1: errors of --metrics are reported before any work begins.
func TestM1_MetricsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	b.refused(starter.ExitUsage, []string{"run", "--exec", "cat", "in.txt", "-o", "out.txt", "--metrics", "here"}, `metrics "here"`, "HOST:PORT", "PORT")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	c := b.stint("run", "--exec", "cat", "in.txt", "-o", "out.txt", "--metrics", taken.Addr().String()).exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), taken.Addr().String())
	require.Contains(t, c.stderr.String(), "in use")
	require.NoFileExists(t, b.path("out.txt"))
}
