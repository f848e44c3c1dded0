package limits

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every kind of failure that package job has is in the table, and in the docs: whoever adds one adds it there.
func TestFailureKinds(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../../job/failure.go")
	require.NoError(t, err)
	docs, err := os.ReadFile("../../../docs/failures.md")
	require.NoError(t, err)
	var constants, names []string
	for _, found := range regexp.MustCompile(`(?m)^\tKind\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		constants = append(constants, found[1])
	}
	for _, kind := range FailureKinds {
		names = append(names, kind.Name)
		require.Contains(t, string(docs), "\n| `"+kind.Name+"` | "+kind.Meaning+" |\n")
	}
	require.Equal(t, constants, names)
	require.Equal(t, FailureKind{Name: "strange"}, FailureKindOf("strange"))
}
