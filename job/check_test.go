package job

import (
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/limits"
	"github.com/stretchr/testify/require"
)

func TestCheckName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, value, problem string
	}{
		{"plain", "nightly", ""},
		{"digits and dashes", "2026-11-21", ""},
		{"one byte", "a", ""},
		{"dash at the end", "a-", ""},
		{"longest", strings.Repeat("a", limits.MaxName), ""},
		{"too long", strings.Repeat("a", limits.MaxName+1), "201 bytes long: at most 200"},
		{"empty", "", "is empty"},
		{"dash first", "-a", "beginning with a letter or digit"},
		{"upper case", "Nightly", "use lower-case letters"},
		{"slash", "a/leg-1", "use lower-case letters"},
		{"dot", "a.io", "use lower-case letters"},
		{"space", "a b", "use lower-case letters"},
		{"umlaut", "für", "use lower-case letters"},
		{"newline at the end", "a\n", "use lower-case letters"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, what := range []string{"job", "pool"} {
				err := CheckName(what, test.value)
				if test.problem == "" {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, test.problem)
				require.ErrorContains(t, err, what+" name")
			}
		})
	}
}

// No pool can have the queue of another's io, nor that of workflow tasks: names have no dots. A leg's
// ID is not a job's name, so that legs and jobs cannot be taken for one another.
func TestCheckName_Reserved(t *testing.T) {
	t.Parallel()
	require.Error(t, CheckName("pool", "thumbs.io"))
	require.Error(t, CheckName("job", "nightly/leg-1"))
}
