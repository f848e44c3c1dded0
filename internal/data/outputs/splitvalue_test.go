package outputs

import (
	"strings"
	"testing"

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
