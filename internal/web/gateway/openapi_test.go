package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
)

// The document describes all routes, errors and statuses, and no others.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	s := serve(t, &fake{}, nil)
	r := s.send(http.MethodGet, "/openapi.json", "", nil)
	require.Equal(t, http.StatusOK, r.status)
	require.Equal(t, jsonType, r.header.Get("Content-Type"))
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Responses map[string]struct{ Description string }
			Schemas   struct {
				Error struct {
					Properties map[string]struct{ Enum []string }
				}
				State, Outcome struct{ Properties map[string]any }
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &doc))
	described := 0
	for path, methods := range doc.Paths {
		for method := range methods {
			if method != "parameters" {
				described++
				require.Truef(t, hasRoute(s.gateway, strings.ToUpper(method), path), "%s %s", method, path)
			}
		}
	}
	require.Len(t, s.gateway.routes, described)
	require.ElementsMatch(t, keysOf(t, problem{Item: new(int64), Queued: new(float64), Cause: &job.Error{}, Reason: &problem{}}, true), keys(doc.Components.Schemas.Error.Properties))
	require.ElementsMatch(t, keysOf(t, stateAnswer{}, false), keys(doc.Components.Schemas.State.Properties))
	require.Subset(t, keys(doc.Components.Schemas.Outcome.Properties), []string{"index", "item", "result", "dropped", "error"})
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var text bytes.Buffer
	for _, source := range sources {
		if !strings.HasSuffix(source, "_test.go") {
			data, err := os.ReadFile(source)
			require.NoError(t, err)
			text.Write(data)
		}
	}
	for _, kind := range doc.Components.Schemas.Error.Properties["type"].Enum {
		if _, status := jobs.FeedCode(kind).Problem(); status == 0 { // the gateway's own
			require.Contains(t, text.String(), `"`+kind+`"`)
		}
	}
	for _, word := range strings.FieldsFunc(text.String(), func(r rune) bool { return r != '"' && (r < 'A' || r > 'z') }) {
		if strings.HasPrefix(word, `"`) && strings.HasSuffix(word, `Error"`) {
			require.Contains(t, doc.Components.Schemas.Error.Properties["type"].Enum, strings.Trim(word, `"`))
		}
	}
}

func hasRoute(g *Gateway, method, path string) bool {
	for _, rt := range g.routes {
		if rt.method == method && rt.path == path {
			return true
		}
	}
	return false
}

func keys[V any](m map[string]V) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	return names
}

// keysOf are the keys that a struct has in JSON; fill gives all its plain fields a value first.
func keysOf(t *testing.T, v any, fill bool) []string {
	t.Helper()
	if p, ok := v.(problem); ok && fill {
		p.Line, p.Kind, p.Attempts, p.Capacity, p.CapacityBytes, p.Backlog, p.BacklogBytes = 1, "x", 1, 1, 1, 1, 1
		p.MaxItems, p.MaxBytes, p.Waited, p.Total, p.Accepted = 1, 1, 1, 1, true
		v = p
	}
	var fields map[string]any
	require.NoError(t, json.Unmarshal(encode(v), &fields))
	return keys(fields)
}
