// Package helm_test checks what lies under deploy/ for Kubernetes and Prometheus with their own code. It is a module of
// its own, so that stint's does not depend on them.
package helm_test

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const chartDir = "../stint"

var golden = flag.Bool("golden", false, "write what is rendered to testdata")

// values reads a file of values.
func values(t *testing.T, name string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(chartDir, "ci", name+".yaml"))
	require.NoError(t, err)
	return parsed(t, string(data))
}

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &v))
	return v
}

// render renders the chart as 'helm install' does, the check of the values included, and returns its files.
func render(values map[string]any) (map[string]string, error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	release := common.ReleaseOptions{Name: "batch", Namespace: "jobs", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// object is one of what the chart makes.
type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`

	text []byte
	body any // of the API's type; nil: it has none here
}

func (o object) key() string { return o.Kind + " " + o.Metadata.Name }

// types are those of the APIs.
var types = map[string]func() any{
	"v1 ConfigMap":                            func() any { return &corev1.ConfigMap{} },
	"v1 Service":                              func() any { return &corev1.Service{} },
	"v1 ServiceAccount":                       func() any { return &corev1.ServiceAccount{} },
	"apps/v1 Deployment":                      func() any { return &appsv1.Deployment{} },
	"policy/v1 PodDisruptionBudget":           func() any { return &policyv1.PodDisruptionBudget{} },
	"networking.k8s.io/v1 NetworkPolicy":      func() any { return &networkingv1.NetworkPolicy{} },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return &monitoringv1.ServiceMonitor{} },
	"monitoring.coreos.com/v1 PrometheusRule": func() any { return &monitoringv1.PrometheusRule{} },
	"keda.sh/v1alpha1 ScaledObject":           nil, // by its CRD
	"keda.sh/v1alpha1 TriggerAuthentication":  nil,
}

// objects renders and decodes, strictly.
func objects(t *testing.T, values map[string]any) map[string]object {
	t.Helper()
	files, err := render(values)
	require.NoError(t, err)
	all := map[string]object{}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, document := range strings.Split(text, "\n---\n") {
			document = strings.TrimPrefix(strings.TrimSpace(document), "---\n")
			if document == "" || document == "---" {
				continue
			}
			o := decode(t, document)
			require.NotContains(t, all, o.key())
			all[o.key()] = o
		}
	}
	return all
}

func decode(t *testing.T, document string) object {
	t.Helper()
	o := object{text: []byte(document)}
	require.NoError(t, yaml.Unmarshal(o.text, &o), document)
	make, known := types[o.APIVersion+" "+o.Kind]
	require.Truef(t, known, "%s %s", o.APIVersion, o.Kind)
	if make != nil {
		o.body = make()
		require.NoError(t, yaml.UnmarshalStrict(o.text, o.body), document)
	} else {
		fitsCRD(t, o)
	}
	return o
}

// Rendered objects are those of testdata, which tests of the program read, too.
func TestChart_Golden(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"small", "whole"} {
		all := objects(t, values(t, name))
		var text bytes.Buffer
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if all[key].Kind != "ConfigMap" && all[key].Kind != "PrometheusRule" { // copies of files
				text.WriteString("---\n" + string(all[key].text) + "\n")
			}
		}
		file := filepath.Join("testdata", name+".yaml")
		if *golden {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(file, text.Bytes(), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), text.String(), "go test -run Golden -golden writes it")
	}
}
