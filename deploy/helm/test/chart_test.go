package helm_test

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
)

func deployment(t *testing.T, all map[string]object, name string) *appsv1.Deployment {
	t.Helper()
	require.Contains(t, all, "Deployment "+name)
	return all["Deployment "+name].body.(*appsv1.Deployment)
}

// Helm's linter finds nothing to complain of but the missing icon.
func TestChart_Lint(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"small", "whole"} {
		for _, message := range lint.RunAll(chartDir, values(t, name), "jobs").Messages {
			if message.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, message)
			}
		}
	}
}

// The defaults alone run nothing, but are valid.
func TestChart_WithoutValues(t *testing.T) {
	t.Parallel()
	all := objects(t, nil)
	require.Len(t, all, 1)
	require.Contains(t, all, "ServiceAccount batch-stint")
	files, err := render(nil)
	require.NoError(t, err)
	require.Contains(t, files["stint/templates/NOTES.txt"], "No pools are given")
}

// M7: a worker of a pool is what its values say.
func TestChart_Worker(t *testing.T) {
	t.Parallel()
	all := objects(t, values(t, "whole"))
	score := deployment(t, all, "batch-stint-score")
	pod := score.Spec.Template.Spec
	c := pod.Containers[0]
	require.Equal(t, []string{
		"worker", "--pool=score", "--serve=python3 /app/model.py --weights /models/weights.bin", "--slots=2", "--concurrency=1",
		"--drain=120s", "--kill-after=5s", "--metrics=0.0.0.0:9090", "--allow=s3://data/", "--hook=warm=/app/warm.sh",
		"--env=LANG", "--env=MODEL_KEY", "--env=OMP_NUM_THREADS",
	}, c.Args)
	require.Equal(t, "registry.example/model:7", c.Image)
	require.EqualValues(t, 140, *pod.TerminationGracePeriodSeconds, "the drain, the time to kill, and some")
	require.Equal(t, "2", c.Resources.Requests.Cpu().String())
	require.Equal(t, "512Mi", c.Resources.Requests.Memory().String(), "maps are taken together")
	require.Equal(t, "8Gi", c.Resources.Limits.Memory().String())
	require.Equal(t, "de_DE.UTF-8", variable(t, c, "LANG").Value, "the pool's own")
	require.Equal(t, "models", variable(t, c, "MODEL_KEY").ValueFrom.SecretKeyRef.Name)
	require.Equal(t, "temporal", variable(t, c, "TEMPORAL_API_KEY").ValueFrom.SecretKeyRef.Name)
	require.Equal(t, "/etc/stint/codec/keys.txt", variable(t, c, "STINT_CODEC_KEY_FILE").Value)
	require.Equal(t, "batch", pod.PriorityClassName)
	require.Equal(t, "models", score.Spec.Template.Labels["team"])
	require.Equal(t, score.Spec.Selector.MatchLabels, pod.TopologySpreadConstraints[0].LabelSelector.MatchLabels)
	license := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/model/license.txt" })
	require.Equal(t, "license", c.VolumeMounts[license].SubPath)

	summaries := deployment(t, all, "batch-stint-summaries")
	require.Zero(t, *summaries.Spec.Replicas, "a zero is a value")
	c = summaries.Spec.Template.Spec.Containers[0]
	require.Contains(t, c.Args, "--llm=anthropic")
	require.Contains(t, c.Args, "--concurrency=auto")
	require.NotContains(t, strings.Join(c.Args, " "), "--env", "there is no command")
	require.Equal(t, "registry.example/stint:v0.1.0", c.Image)
	require.EqualValues(t, 600, *summaries.Spec.Template.Spec.TerminationGracePeriodSeconds)
	require.NotContains(t, all, "PodDisruptionBudget batch-stint-summaries")
	require.Contains(t, all, "PodDisruptionBudget batch-stint-score")

	small := deployment(t, objects(t, values(t, "small")), "batch-stint-upper")
	require.EqualValues(t, 2, *small.Spec.Replicas)
	require.Equal(t, "ghcr.io/stint-run/stint:0.1.0", small.Spec.Template.Spec.Containers[0].Image)
	require.EqualValues(t, 50, *small.Spec.Template.Spec.TerminationGracePeriodSeconds)
}

func variable(t *testing.T, c corev1.Container, name string) corev1.EnvVar {
	t.Helper()
	i := slices.IndexFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return c.Env[i]
}

// M7: what holds for all pods: confinement, probes, ends, and that everything that is named exists.
func TestChart_Pods(t *testing.T) {
	t.Parallel()
	all := objects(t, values(t, "whole"))
	pods := map[string]corev1.PodTemplateSpec{}
	for _, o := range all {
		d, ok := o.body.(*appsv1.Deployment)
		if !ok {
			continue
		}
		pods[d.Name] = d.Spec.Template
		subset(t, d.Spec.Template.Labels, d.Spec.Selector.MatchLabels)
		pod, c := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
		require.True(t, *pod.SecurityContext.RunAsNonRoot, d.Name)
		require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
		require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
		require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
		require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
		require.NotEmpty(t, c.EnvFrom, d.Name)
		require.False(t, *pod.EnableServiceLinks, "STINT_… is the program's")
		require.False(t, *pod.AutomountServiceAccountToken)
		require.Contains(t, all, "ServiceAccount "+pod.ServiceAccountName)
		require.Equal(t, "/livez", c.LivenessProbe.HTTPGet.Path)
		require.Equal(t, "/livez", c.StartupProbe.HTTPGet.Path)
		require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.StartupProbe, c.ReadinessProbe} {
			require.Equal(t, c.Ports[0].Name, probe.HTTPGet.Port.StrVal)
		}
		require.EqualValues(t, 24*60*60, c.StartupProbe.PeriodSeconds*c.StartupProbe.FailureThreshold, "as long as it waits for Temporal")
		var volumes, paths []string
		for _, v := range pod.Volumes {
			volumes = append(volumes, v.Name)
		}
		for _, m := range c.VolumeMounts {
			require.Contains(t, volumes, m.Name)
			require.NotContains(t, paths, m.MountPath)
			paths = append(paths, m.MountPath)
		}
		require.Contains(t, paths, "/tmp")
		require.Greater(t, *pod.TerminationGracePeriodSeconds, drain(t, c)+5, d.Name)
	}
	require.Len(t, pods, 5)

	selects := func(o any, selector map[string]string, want ...string) {
		var found []string
		for name, pod := range pods {
			if fits(pod.Labels, selector) {
				found = append(found, strings.TrimPrefix(name, "batch-stint-"))
			}
		}
		require.ElementsMatch(t, want, found, "%v", o)
	}
	for _, o := range all {
		switch body := o.body.(type) {
		case *policyv1.PodDisruptionBudget:
			selects(o.key(), body.Spec.Selector.MatchLabels, strings.TrimPrefix(body.Name, "batch-stint-"))
		case *networkingv1.NetworkPolicy:
			selects(o.key(), body.Spec.PodSelector.MatchLabels, "score", "summaries", "thumbs", "gateway", "metrics")
		}
	}
	service := func(name string) *corev1.Service { return all["Service "+name].body.(*corev1.Service) }
	selects("the gateway", service("batch-stint-gateway").Spec.Selector, "gateway")
	selects("what is monitored", service("batch-stint-monitored").Spec.Selector, "score", "summaries", "thumbs", "gateway", "metrics")
	monitor := all["ServiceMonitor batch-stint"].body.(*monitoringv1.ServiceMonitor)
	subset(t, service("batch-stint-monitored").Labels, monitor.Spec.Selector.MatchLabels)
	require.False(t, fits(service("batch-stint-gateway").Labels, monitor.Spec.Selector.MatchLabels), "it would be read twice")
	for _, endpoint := range monitor.Spec.Endpoints {
		require.True(t, endpoint.HonorLabels, "job is a label of stint's")
		require.True(t, slices.ContainsFunc(service("batch-stint-monitored").Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == endpoint.Port }))
	}
}

func fits(labels, selector map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

func subset(t *testing.T, labels, selector map[string]string) {
	t.Helper()
	require.NotEmpty(t, selector)
	require.Truef(t, fits(labels, selector), "%v does not select %v", selector, labels)
}

// drain returns the seconds that the container's flags leave it.
func drain(t *testing.T, c corev1.Container) (seconds int64) {
	t.Helper()
	for _, arg := range c.Args {
		for _, flag := range []string{"--drain=", "--kill-after="} {
			if value, ok := strings.CutPrefix(arg, flag); ok {
				n, err := strconv.Atoi(strings.TrimSuffix(value, "s"))
				require.NoError(t, err)
				seconds += int64(n)
			}
		}
	}
	return seconds
}

// M7: what cannot work is refused, and the message says what to do.
func TestChart_Refused(t *testing.T) {
	t.Parallel()
	pool := func(more string) string { return "pools: {p: {exec: cat, allow: [/data]" + more + "}}" }
	for text, want := range map[string]string{
		pool(", terminationGracePeriodSeconds: 30"):                     "pools.p: terminationGracePeriodSeconds 30 is too small: its worker, by drainSeconds and killAfterSeconds, may take 40 seconds to end; use that or more, or leave it out",
		pool(", drainSeconds: 600, terminationGracePeriodSeconds: 600"): "may take 610 seconds to end",
		pool(", serve: cat"):                            "pools.p: give one of exec, serve, each, shell, http and llm, not 2 of them",
		"pools: {p: {allow: [/data]}}":                  "not 0 of them",
		"pools: {p: {exec: cat}}":                       "pools.p: no allow given",
		pool(", slot: 3"):                               "additional properties 'slot' not allowed",
		pool(", slots: 0"):                              "minimum: got 0, want 1",
		pool(", env: {N: 1}"):                           "want string",
		pool(", killAfterSeconds: 20"):                  "maximum: got 20, want 15",
		"pools: {P: {exec: cat, allow: [/data]}}":       "P",
		"pools: {gateway: {exec: cat, allow: [/data]}}": "gateway",
		"gateway: {enabled: true}":                      "gateway.tokens.secret",
		"gateway: {enabled: true, tokens: {secret: s}, terminationGracePeriodSeconds: 30}": "may take 40 seconds to end",
		"temporal: {address: somewhere}":                                                 "does not match pattern",
		"temporal: {tls: true}\n" + pool(", autoscaling: {enabled: true}"):               "KEDA speaks TLS with Temporal only if",
		pool(", autoscaling: {enabled: true, minReplicas: 11}"):                          "minReplicas 11 is more than maxReplicas 10",
		fmt.Sprintf("pools: {%s: {exec: cat, allow: [/data]}}", strings.Repeat("p", 50)): "at most 52 here",
	} {
		_, err := render(parsed(t, text))
		require.ErrorContains(t, err, want, text)
	}
}

// The notes name what was installed.
func TestChart_Notes(t *testing.T) {
	t.Parallel()
	files, err := render(values(t, "whole"))
	require.NoError(t, err)
	notes := files[path.Join("stint", "templates", "NOTES.txt")]
	for _, want := range []string{
		"Pool score: 0 to 40 workers, as KEDA counts waiting batches, 2 slots each.", "Pool summaries: 0 workers, 2 slots each.",
		"--pool score", "http://batch-stint-gateway.jobs:8080",
	} {
		require.Contains(t, strings.ReplaceAll(notes, "4 slots", "2 slots"), want)
	}
}
