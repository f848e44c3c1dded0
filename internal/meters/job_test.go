package meters

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every kind of failure that package job has is counted under its own name: whoever adds one has to add it here.
func TestD39_AllKindsOfFailuresAreCounted(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../../job/failure.go", nil, 0)
	require.NoError(t, err)
	var kinds []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Kind") {
			return true
		}
		kind, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		kinds = append(kinds, kind)
		return true
	})
	require.Contains(t, kinds, "exit")
	require.ElementsMatch(t, kinds, Failures)
	j := (&Meters{}).Job("nightly")
	for _, kind := range kinds {
		require.NotNil(t, j.outcomes[kind], kind)
	}
}
