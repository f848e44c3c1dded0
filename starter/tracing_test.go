package starter_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collected are the spans that a collector on this machine has got.
type collected struct {
	mu      sync.Mutex
	spans   []*otlp.Span
	service string
}

// ServeHTTP is one of http.Handler.
func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var sent collector.ExportTraceServiceRequest
	if r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &sent) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range sent.GetResourceSpans() {
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				c.service = a.GetValue().GetStringValue()
			}
		}
		for _, in := range of.GetScopeSpans() {
			c.spans = append(c.spans, in.GetSpans()...)
		}
	}
}

// M8: the variables OTEL_… alone have a run send its spans to a collector, and its commands know theirs.
func TestM8_Collector(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\nb\n")
	path, err := binary()
	require.NoError(t, err)
	traced := &collected{}
	at := httptest.NewServer(traced)
	t.Cleanup(at.Close)
	cmd := exec.Command(path, "run", "in.txt", "-o", "out.txt", "--call-items", "1", "--exec", `sh -c 'cat >/dev/null; echo $TRACEPARENT'`)
	cmd.Env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + at.URL, "OTEL_SERVICE_NAME=birds", "TRACEPARENT=00-not-ours"}
	b.spawnCommand(cmd).exits(starter.ExitOK)

	require.Equal(t, "birds", traced.service)
	calls, names := map[string]bool{}, map[string]int{}
	for _, s := range traced.spans {
		names[s.GetName()]++
		if s.GetName() == "call" {
			calls["00-"+hex.EncodeToString(s.GetTraceId())+"-"+hex.EncodeToString(s.GetSpanId())+"-01"] = true
		}
	}
	require.Equal(t, []int{1, 2, 0}, []int{names["job"], names["call"], names["item"]})
	require.Positive(t, names["batch"])
	lines := strings.Fields(b.read("out.txt"))
	require.Len(t, lines, 2)
	for _, line := range lines {
		require.True(t, calls[line], line)
	}
}

// M8: variables that nobody can obey are refused before any work begins.
func TestM8_Refused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.env = append(b.env, "OTEL_TRACES_EXPORTER=jaeger")
	b.refused(starter.ExitUsage, []string{"worker", "--pool", "p", "--allow", "all", "--exec", "cat"}, `OTEL_TRACES_EXPORTER "jaeger": use otlp or none`)
}
