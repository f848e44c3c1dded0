package page

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/job"
)

// U7: the description has all paths of the API, and no others; what it says of shapes holds for what is sent.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	p, _ := setup(t, Options{})
	a := send(t, p, http.MethodGet, apiPath+"/openapi.json", "")
	require.Equal(t, http.StatusOK, a.status)
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components map[string]map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &doc))
	described := map[string]bool{}
	for path, methods := range doc.Paths {
		for method := range methods {
			if method != "parameters" {
				described[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	for _, r := range p.routes {
		if strings.HasPrefix(r.path, apiPath+"/") && r.path != apiPath+"/" {
			require.True(t, described[r.method+" "+r.path], "%s %s is not described", r.method, r.path)
			delete(described, r.method+" "+r.path)
		}
	}
	require.Empty(t, described, "there are no such paths")
	for _, ref := range strings.Split(a.body, `"$ref":"#/components/`)[1:] {
		name, _, _ := strings.Cut(ref, `"`)
		kind, name, _ := strings.Cut(name, "/")
		require.NotNil(t, doc.Components[kind][name], "%s %s", kind, name)
	}

	schemas, err := jsonschema.UnmarshalJSON(strings.NewReader(a.body))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("page.json", schemas))
	for name, shape := range map[string]any{"Job": evilJob(job.Running), "JobList": JobList{}, "Workers": Workers{}, "Failures": Failures{}, "ErrorAnswer": failure{}, "Done": Done{}} {
		value := reflect.New(reflect.TypeOf(shape)).Elem()
		if name == "Job" {
			value.Set(reflect.ValueOf(shape))
		} else {
			spoil(value, 0)
		}
		schema, err := c.Compile("page.json#/components/schemas/" + name)
		require.NoError(t, err)
		said, err := jsonschema.UnmarshalJSON(bytes.NewReader(toJSON(value.Interface())))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(said), name)
		requireDescribed(t, doc.Components["schemas"], name, said)
	}
}

// requireDescribed requires that each key of what is sent is in its schema.
func requireDescribed(t *testing.T, schemas map[string]any, name string, said any) {
	t.Helper()
	properties := schemas[name].(map[string]any)["properties"].(map[string]any)
	for key := range said.(map[string]any) {
		require.Contains(t, properties, key, name)
	}
}

// U7: the fields of 'stint status --json' and of the API are the same ones.
func TestShapes_AreThoseOfCommands(t *testing.T) {
	t.Parallel()
	var ours, theirs map[string]any
	j := evilJob(job.Running)
	require.NoError(t, json.Unmarshal(toJSON(j), &ours))
	require.NoError(t, json.Unmarshal(toJSON(j.Status), &theirs))
	for key, value := range theirs {
		require.Equal(t, value, ours[key], key)
	}
}

func TestErrors_AreJSON(t *testing.T) {
	t.Parallel()
	p, err := New(Options{})
	require.NoError(t, err)
	for path, status := range map[string]int{
		api: http.StatusServiceUnavailable, api + "/x!": http.StatusNotFound, apiPath + "/none": http.StatusNotFound, api + "?state=odd": http.StatusBadRequest,
		api + "/events?pool=A": http.StatusBadRequest, api + "/x!/events": http.StatusNotFound, api + "/x!/errors": http.StatusNotFound,
	} {
		a := send(t, p, http.MethodGet, path, "")
		require.Equal(t, status, a.status, path)
		var said failure
		require.NoError(t, json.Unmarshal([]byte(a.body), &said), path)
		require.NotEmpty(t, said.Error.Message)
	}
}
