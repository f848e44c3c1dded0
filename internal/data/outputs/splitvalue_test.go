package outputs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stretchr/testify/require"
)

func TestFileOf(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for result, want := range map[string]string{
		`{"kind":"a"}`: "a", ` { "x" : 1 , "kind" : "a b" } `: "a%20b", `{"kind":1.50}`: "1.50", `{"kind":true}`: "true", `{"kind":-1e+5}`: "-1e%2B5",
		`{"kind":"\u00e9\n"}`: "é%0A", `{"\u006bind":"a"}`: "a", `{"kind":"a","kind":"b"}`: "b", `{"x":` + deep + `,"kind":"a"}`: "a",
		`{"kind":""}`: "_empty", `{"kind":null}`: "_none", `{"kind":["a"]}`: "_none", `{"kind":{}}`: "_none", `{}`: "_none", `{"Kind":"a"}`: "_none",
		`{"x":{"kind":"a"}}`: "_none", `["kind"]`: "_none", `"kind"`: "_none", ``: "_none", `text`: "_none", `{"kind":"a"`: "_none", `{"kind":"a",}`: "_none",
		`{"kind":"a"} x`: "_none", `{"kind":"a" "b":1}`: "_none", `{"kind" "a"}`: "_none", `{,"kind":"a"}`: "_none",
	} {
		require.Equal(t, want, fileOf([]byte(result), "kind"), "%s", result)
	}
}

// Over random objects the field is the one that encoding/json finds.
func TestFieldOf_Random(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 3)
	values := []string{`1`, `"a"`, `null`, `{"f":2}`, `["f"]`, `"\""`, ` true `}
	names := []string{`"f"`, `"g"`, `"\u0066"`, `"f "`, `"\"f\":"`}
	for range 2000 {
		var members []string
		for range random.IntN(5) {
			members = append(members, fmt.Sprintf("%s: %s", names[random.IntN(len(names))], values[random.IntN(len(values))]))
		}
		object := []byte("{" + strings.Join(members, " , ") + "}")
		if n := random.IntN(20); n == 0 {
			object = object[:random.IntN(len(object))]
		}
		var all map[string]json.RawMessage
		var want json.RawMessage
		ok := false
		if json.Unmarshal(object, &all) == nil {
			want, ok = all["f"]
		}
		got, has := fieldOf(object, "f")
		require.Equal(t, ok, has, "%s", object)
		require.Equal(t, strings.TrimSpace(string(want)), strings.TrimSpace(string(got)), "%s", object)
	}
}
