package helm_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// shown are the labels of each series that the programs show, by the names that queries have: those of metrics.txt, to
// which the programs' own tests hold them.
func shown(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile("../../prometheus/metrics.txt")
	require.NoError(t, err)
	series := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		name, kind, labels := fields[0], fields[1], fields[2:]
		if kind != "histogram" {
			series[name] = labels
			continue
		}
		series[name+"_bucket"] = append(slices.Clone(labels), "le")
		series[name+"_sum"], series[name+"_count"] = labels, labels
	}
	require.NotEmpty(t, series)
	return series
}

// check fails unless the query is one, and all that it names is shown.
func check(t *testing.T, series map[string][]string, query string) {
	t.Helper()
	if complaint := complaintOf(t, series, query); complaint != "" {
		t.Errorf("%s: %s", query, complaint)
	}
}

func complaintOf(t *testing.T, series map[string][]string, query string) (complaint string) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return err.Error()
	}
	has := []string{} // labels of the series in the query
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		labels, known := series[selector.Name]
		if !known {
			complaint = "nothing shows " + selector.Name
		}
		for _, m := range selector.LabelMatchers {
			if m.Name != model.MetricNameLabel && !slices.Contains(labels, m.Name) {
				complaint = selector.Name + " has no label " + m.Name
			}
		}
		has = append(has, labels...)
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		var named []string
		switch e := node.(type) {
		case *parser.AggregateExpr:
			named = e.Grouping
		case *parser.BinaryExpr:
			if e.VectorMatching != nil {
				named = e.VectorMatching.MatchingLabels
			}
		}
		for _, label := range named {
			if !slices.Contains(has, label) {
				complaint = "there is no label " + label
			}
		}
		return nil
	})
	return complaint
}

// M6: every alert is a query of metrics that exist, and says what to do in words that can be put together.
func TestRules(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../prometheus/rules.yaml")
	require.NoError(t, err)
	var rules monitoringv1.PrometheusRuleSpec
	require.NoError(t, yaml.UnmarshalStrict(data, &rules))
	series := shown(t)
	var names []string
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			names = append(names, rule.Alert)
			check(t, series, rule.Expr.String())
			require.Contains(t, []string{"warning", "critical"}, rule.Labels["severity"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
			if rule.For != nil {
				_, err := model.ParseDuration(string(*rule.For))
				require.NoError(t, err, rule.Alert)
			}
			for _, text := range rule.Annotations {
				none := func(v any) any { return v }
				_, err := template.New("").Funcs(template.FuncMap{"humanizePercentage": none, "humanizeDuration": none}).
					Parse(`{{ $labels := .Labels }}{{ $value := .Value }}` + text)
				require.NoError(t, err, rule.Alert)
				for _, label := range labelsIn.FindAllStringSubmatch(text, -1) {
					require.Contains(t, rule.Expr.String()+strings.Join(slices.Concat(labelsOf(series, rule.Expr.String())...), " "), label[1], rule.Alert)
				}
			}
		}
	}
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(names))), len(names))
	require.Greater(t, len(names), 10)
}

var labelsIn = regexp.MustCompile(`\$labels\.(\w+)`)

// labelsOf returns the labels of all series that a query names.
func labelsOf(series map[string][]string, query string) (labels [][]string) {
	for name, has := range series {
		if strings.Contains(query, name) {
			labels = append(labels, has)
		}
	}
	return labels
}

// M6: every panel of the dashboard shows metrics that exist.
func TestDashboard(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../grafana/stint.json")
	require.NoError(t, err)
	var board struct {
		UID    string
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     struct{ H, W, X, Y int }
			Targets     []struct{ Expr, RefID, LegendFormat string }
		}
		Templating struct {
			List []struct {
				Name  string
				Query any
			}
		}
	}
	require.NoError(t, json.Unmarshal(data, &board))
	require.Equal(t, "stint", board.UID)
	series, used := shown(t), map[string]bool{}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$pool", ".*", "$job", ".*")
	seen := map[int]bool{}
	for _, panel := range board.Panels {
		require.False(t, seen[panel.ID], panel.Title)
		seen[panel.ID] = true
		require.LessOrEqual(t, panel.GridPos.X+panel.GridPos.W, 24, panel.Title)
		require.Equal(t, panel.Type == "row", len(panel.Targets) == 0, panel.Title)
		for _, target := range panel.Targets {
			query := variables.Replace(target.Expr)
			require.NotContains(t, query, "$", panel.Title)
			check(t, series, query)
			for _, name := range metricsIn.FindAllString(query, -1) {
				used[name] = true
			}
		}
	}
	for _, v := range board.Templating.List {
		if q, ok := v.Query.(map[string]any); ok {
			found := regexp.MustCompile(`^label_values\((\w+).*, (\w+)\)$`).FindStringSubmatch(q["query"].(string))
			require.NotNil(t, found, q)
			require.Contains(t, series[found[1]], found[2])
		}
	}
	for name := range series {
		if strings.HasPrefix(name, "stint_job_items") {
			require.True(t, used[name], name)
		}
	}
}

var metricsIn = regexp.MustCompile(`(stint|temporal)_\w+`)

// What queries must not name is found.
func TestQueries_Refused(t *testing.T) {
	t.Parallel()
	series := shown(t)
	for query, want := range map[string]string{
		`sum(stint_things)`: "nothing shows stint_things", `stint_slots{job="x"}`: "has no label job", `sum by (job) (stint_slots)`: "no label job",
		`sum(stint_slots`: "unclosed left parenthesis", `rate(stint_call_duration_seconds[5m])`: "nothing shows", `sum by (pool) (stint_slots)`: "",
	} {
		if complaint := complaintOf(t, series, query); want == "" {
			require.Empty(t, complaint)
		} else {
			require.Contains(t, complaint, want, query)
		}
	}
}

// The chart installs the same files.
func TestChart_RulesAndDashboard(t *testing.T) {
	t.Parallel()
	all := objects(t, values(t, "whole"))
	data, err := os.ReadFile("../../prometheus/rules.yaml")
	require.NoError(t, err)
	var rules monitoringv1.PrometheusRuleSpec
	require.NoError(t, yaml.Unmarshal(data, &rules))
	require.Equal(t, rules, all["PrometheusRule batch-stint"].body.(*monitoringv1.PrometheusRule).Spec)
	board, err := os.ReadFile("../../grafana/stint.json")
	require.NoError(t, err)
	config := all["ConfigMap batch-stint-dashboard"].body.(*corev1.ConfigMap)
	require.Equal(t, string(board), config.Data["stint.json"])
	require.Equal(t, "1", config.Labels["grafana_dashboard"])
}

// The page has the metrics of jobs, and no others.
func TestPage_Metrics(t *testing.T) {
	t.Parallel()
	text := page(t)
	for name := range shown(t) {
		if strings.HasPrefix(name, "stint_job") {
			require.Contains(t, text, "| `"+name+"` |")
		}
	}
	for _, name := range regexp.MustCompile("\\| `(stint_\\w+)` \\|").FindAllStringSubmatch(text, -1) {
		require.Contains(t, shown(t), name[1])
	}
}

func page(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../../docs/kubernetes.md")
	require.NoError(t, err)
	return string(data)
}

// The values of the page can be installed.
func TestPage_Values(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page(t), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		all := objects(t, parsed(t, block[1]))
		require.Contains(t, deployment(t, all, "batch-stint-upper").Spec.Template.Spec.Containers[0].Args, "--slots=8")
	}
}
