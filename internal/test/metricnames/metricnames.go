// Package metricnames compares the metrics that programs show with deploy/prometheus/metrics.txt, against which dashboards
// and rules are checked (deploy/helm/test).
package metricnames

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
)

// Shown returns what a handler shows to Prometheus: a line for each metric, with its type and its labels.
func Shown(t *testing.T, handler http.Handler) []string {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, answer.Code)
	return In(t, answer.Body.String())
}

// In is Shown for the text that a handler has shown.
func In(t *testing.T, text string) []string {
	t.Helper()
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	var lines []string
	for name, family := range families {
		labels := map[string]bool{}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
		lines = append(lines, strings.Join(append([]string{name, strings.ToLower(family.GetType().String())}, slices.Sorted(maps.Keys(labels))...), " "))
	}
	slices.Sort(lines)
	return lines
}

// Listed returns the lines of the file whose metrics are chosen.
func Listed(t *testing.T, choose func(name string) bool) []string {
	t.Helper()
	file := "deploy/prometheus/metrics.txt"
	for range 6 {
		if _, err := os.Stat(file); err == nil {
			break
		}
		file = filepath.Join("..", file)
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && choose(strings.Fields(line)[0]) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Require fails unless what is shown is what the file lists, of the metrics that are chosen.
func Require(t *testing.T, handler http.Handler, choose func(name string) bool) {
	t.Helper()
	var shown []string
	for _, line := range Shown(t, handler) {
		if choose(strings.Fields(line)[0]) {
			shown = append(shown, line)
		}
	}
	require.Equal(t, Listed(t, choose), shown, fmt.Sprintf("correct deploy/prometheus/metrics.txt, docs and dashboards:\n%s", strings.Join(shown, "\n")))
}
