package helm_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	_ "github.com/kedacore/keda/v2/version" // whose module has the CRDs and the scaler
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// keda is the directory of KEDA's module. To compile its types would take as long again as all of Helm.
var keda = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/kedacore/keda/v2").Output()
	return strings.TrimSpace(string(out)), err
})

func kedaFile(t *testing.T, name string) []byte {
	t.Helper()
	dir, err := keda()
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return data
}

// fitsCRD checks an object against the schema of its CRD, as the API server does with strict field validation.
func fitsCRD(t *testing.T, o object) {
	t.Helper()
	schema := crd(t, strings.ToLower(o.Kind)+"s")
	content, err := yaml.YAMLToJSON(o.text)
	require.NoError(t, err)
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	require.NoError(t, err)
	require.NoError(t, schema.Validate(instance), string(o.text))
}

func crd(t *testing.T, plural string) *jsonschema.Schema {
	t.Helper()
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(kedaFile(t, "config/crd/bases/keda.sh_"+plural+".yaml"), &definition))
	require.Len(t, definition.Spec.Versions, 1)
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	schema["properties"].(map[string]any)["metadata"] = map[string]any{"type": "object"} // the API server's own
	closed(schema)
	data, err := json.Marshal(schema)
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("crd.json", document))
	compiled, err := c.Compile("crd.json")
	require.NoError(t, err)
	return compiled
}

// closed has objects refuse fields that they do not name. What Kubernetes adds to JSON schemas is taken out.
func closed(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		_, named := s["properties"]
		_, others := s["additionalProperties"]
		if named && !others && s["x-kubernetes-preserve-unknown-fields"] != true {
			s["additionalProperties"] = false
		}
		if s["x-kubernetes-int-or-string"] == true {
			delete(s, "anyOf")
			delete(s, "pattern")
			s["type"] = []any{"integer", "string"}
		}
		for _, value := range s {
			closed(value)
		}
	case []any:
		for _, value := range s {
			closed(value)
		}
	}
}

// scaledObject is what these tests read of one.
type scaledObject struct {
	Spec struct {
		ScaleTargetRef                   struct{ Name string }
		MinReplicaCount, MaxReplicaCount int
		Triggers                         []struct {
			Type              string
			Metadata          map[string]string
			AuthenticationRef *struct{ Name string }
		}
	}
}

func scaled(t *testing.T, all map[string]object, name string) scaledObject {
	t.Helper()
	var s scaledObject
	require.Contains(t, all, "ScaledObject "+name)
	require.NoError(t, yaml.Unmarshal(all["ScaledObject "+name].text, &s))
	return s
}

// parameters are those of KEDA's scaler for Temporal, with where it takes them from: out of the tags in its source.
func parameters(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "temporal_scaler.go", kedaFile(t, "pkg/scalers/temporal_scaler.go"), 0)
	require.NoError(t, err)
	known := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok || field.Tag == nil {
			return true
		}
		tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("keda")
		var name, order string
		for part := range strings.SplitSeq(tag, ",") {
			key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			switch key {
			case "name":
				name = value
			case "order":
				order = value
			case "deprecated":
				name = ""
			}
		}
		if name != "" {
			known[name] = order
		}
		return true
	})
	require.Contains(t, known, "taskQueue")
	return known
}

// M7: a pool grows with what waits in each of its queues, and the first worker comes for any of them.
func TestChart_Autoscaling(t *testing.T) {
	t.Parallel()
	all := objects(t, values(t, "whole"))
	known := parameters(t)
	s := scaled(t, all, "batch-stint-score")
	require.Equal(t, "batch-stint-score", s.Spec.ScaleTargetRef.Name)
	require.Equal(t, 0, s.Spec.MinReplicaCount)
	require.Equal(t, 40, s.Spec.MaxReplicaCount)
	var queues []string
	for _, trigger := range s.Spec.Triggers {
		require.Equal(t, "temporal", trigger.Type)
		for name := range trigger.Metadata {
			require.Contains(t, known[name], "triggerMetadata", name)
		}
		queues = append(queues, trigger.Metadata["taskQueue"]+" "+trigger.Metadata["queueTypes"])
		require.Equal(t, strconv.FormatBool(trigger.Metadata["taskQueue"] == "stint"), trigger.Metadata["includeRunningWorkflowCount"])
		require.Equal(t, "jobs.a1b2c.tmprl.cloud:7233", trigger.Metadata["endpoint"])
		require.Equal(t, "batch-stint-temporal", trigger.AuthenticationRef.Name)
		require.NotContains(t, trigger.Metadata, "workerDeploymentName")
	}
	require.Equal(t, []string{"stint.score activity", "stint.score.io activity", "stint workflow"}, queues)
	require.Equal(t, "1", s.Spec.Triggers[0].Metadata["targetQueueSize"], "half of two slots")

	versioned := scaled(t, all, "batch-stint-thumbs")
	require.Len(t, versioned.Spec.Triggers, 4)
	require.Equal(t, "stint.thumbs#2026.12", versioned.Spec.Triggers[1].Metadata["taskQueue"], "batches of pinned jobs")
	require.Equal(t, 1, versioned.Spec.MinReplicaCount)
	require.Equal(t, 10, versioned.Spec.MaxReplicaCount)
	require.Equal(t, "8", versioned.Spec.Triggers[0].Metadata["targetQueueSize"])
	require.Equal(t, "v0.1.0", versioned.Spec.Triggers[0].Metadata["workerDeploymentBuildId"])
	require.Nil(t, deployment(t, all, "batch-stint-score").Spec.Replicas, "KEDA's, or each upgrade would set it back")
	require.NotContains(t, all, "ScaledObject batch-stint-summaries")

	var authentication struct {
		Spec struct {
			SecretTargetRef []struct{ Parameter, Name, Key string }
		}
	}
	require.NoError(t, yaml.Unmarshal(all["TriggerAuthentication batch-stint-temporal"].text, &authentication))
	var given []string
	for _, ref := range authentication.Spec.SecretTargetRef {
		require.Contains(t, known[ref.Parameter], "authParams", ref.Parameter)
		given = append(given, ref.Parameter)
	}
	require.Equal(t, []string{"apiKey", "cert", "key", "ca"}, given)
}

// Fields that KEDA does not have are found.
func TestChart_UnknownFieldsOfKEDA(t *testing.T) {
	t.Parallel()
	schema := crd(t, "scaledobjects")
	for text, good := range map[string]bool{
		`{"spec": {"scaleTargetRef": {"name": "x"}, "triggers": [{"type": "temporal", "metadata": {"a": "b"}}]}}`:    true,
		`{"spec": {"scaleTargetRef": {"name": "x"}, "triggers": [{"type": "temporal", "metadata": {"a": 1}}]}}`:      false,
		`{"spec": {"scaleTargetRef": {"name": "x"}, "minReplicas": 1, "triggers": [{"type": "t", "metadata": {}}]}}`: false,
	} {
		instance, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, good, schema.Validate(instance) == nil, text)
	}
	require.NotContains(t, parameters(t), "buildId", "it is deprecated")
}
