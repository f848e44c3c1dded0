package workflows

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sleeps lists what in a file blocks a workflow task, or hides that from workflowcheck.
func sleeps(t *testing.T, name string, source any) []string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments)
	require.NoError(t, err)
	clock := ""
	for _, imported := range file.Imports {
		if path, err := strconv.Unquote(imported.Path.Value); err != nil || path != "time" {
			continue
		}
		if clock = "time"; imported.Name != nil {
			clock = imported.Name.Name
		}
	}
	var found []string
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if strings.Contains(comment.Text, "workflowcheck:") {
				found = append(found, comment.Text)
			}
		}
	}
	blocking := map[string]bool{"Sleep": true, "After": true, "AfterFunc": true, "Tick": true, "NewTimer": true, "NewTicker": true}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := call.X.(*ast.Ident); ok && pkg.Name == clock && clock != "" && blocking[call.Sel.Name] {
				found = append(found, "time."+call.Sel.Name)
			}
		}
		if name, ok := n.(*ast.Ident); ok && clock == "." && blocking[name.Name] {
			found = append(found, "time."+name.Name)
		}
		return true
	})
	return found
}

// Workflow code never sleeps, here and in the packages below: a sleeping task would hold up a stop, queries, and a
// worker.
func TestNoFileSleeps(t *testing.T) {
	t.Parallel()
	count := map[string]int{} // by package
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		count[filepath.ToSlash(filepath.Dir(path))]++
		require.Empty(t, sleeps(t, path, nil), path)
		return nil
	}))
	require.Greater(t, count["internal/coordinate"], 9, "all files of the coordinator are looked at")
	require.Greater(t, count["internal/dispatch"], 7, "and all of the dispatcher's")
	below, err := filepath.Glob("internal/*")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(below), 6)
	for _, dir := range below {
		require.Positive(t, count[filepath.ToSlash(dir)], dir)
	}
}

// The test above finds what it looks for.
func TestNoFileSleeps_Finds(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		`package p; import "time"; var _ = time.Second`:                           nil,
		`package p; import "time"; func f() { time.Sleep(1) }`:                    {"time.Sleep"},
		`package p; import clock "time"; var _ = clock.After`:                     {"time.After"},
		`package p; import . "time"; func f() { Sleep(1) }`:                       {"time.Sleep"},
		"package p\n\nvar x = 1 //workflowcheck:ignore\n":                         {"//workflowcheck:ignore"},
		`package p; import "go.temporal.io/sdk/workflow"; var _ = workflow.Sleep`: nil,
	} {
		require.Equal(t, want, sleeps(t, "p.go", source), source)
	}
}
