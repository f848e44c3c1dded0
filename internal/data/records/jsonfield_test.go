package records

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stretchr/testify/require"
)

// Over random objects the field is the one that encoding/json finds.
func TestField_Random(t *testing.T) {
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
		got, has := Field(object, "f")
		require.Equal(t, ok, has, "%s", object)
		require.Equal(t, strings.TrimSpace(string(want)), strings.TrimSpace(string(got)), "%s", object)
	}
}
