package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// untrapped are the functions whose goroutines need no trap, and why.
var untrapped = map[string]string{
	"internal/base/trap/trap.go":        "it is the trap",
	"internal/run/calls/abandon.go":     "it recovers itself: a panic of the user's code is the item's error",
	"worker/events.go":                  "it recovers itself: a panic of a user's sink is logged and counted",
	"internal/run/watchdog/event.go":    "it recovers itself: a listener that panics loses an event",
	"internal/run/watchdog/watchdog.go": "it only waits",
	"internal/run/watchdog/reap.go":     "it recovers itself: a reaper that panics is an event",
}

// A panic in a goroutine of stint's own must end as an error that says so: goroutines are started by package trap, or
// run what they do in it (by a Run, a Call, or a worker's run).
func TestGoroutines_AreTrapped(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != "." || slices.Contains([]string{"bench", "examples", "feedsim", "testdata"}, entry.Name())):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(node ast.Node) bool {
			started := startedBy(node)
			if started == nil || trapped(started) {
				return true
			}
			used[filepath.ToSlash(path)] = true
			if untrapped[filepath.ToSlash(path)] == "" {
				t.Errorf("%s: use trap.Go, Watched, After or OnDone: a panic there would be a dump that ends the process", set.Position(started.Pos()))
			}
			return true
		})
		return nil
	}))
	for path := range untrapped {
		require.True(t, used[path], "%s needs no exception any more", path)
	}
}

// startedBy returns the function that a go statement, a method Go of a group, or AfterFunc of time and context runs;
// nil if the node is none of them.
func startedBy(node ast.Node) ast.Expr {
	switch node := node.(type) {
	case *ast.GoStmt:
		return node.Call.Fun
	case *ast.CallExpr:
		method, ok := node.Fun.(*ast.SelectorExpr)
		switch {
		case ok && method.Sel.Name == "Go" && len(node.Args) == 1: // trap.Go and workflow.Go have two
			return node.Args[0]
		case ok && method.Sel.Name == "AfterFunc":
			return node.Args[1]
		}
	}
	return nil
}

// trapped reports whether what the goroutine does is in a trap: the function literal calls trap.Run, trap.Call or the
// run of a worker's dependencies, and does nothing else of any length.
func trapped(started ast.Expr) bool {
	literal, ok := started.(*ast.FuncLit)
	if !ok || len(literal.Body.List) > 5 {
		return false
	}
	found := false
	ast.Inspect(literal.Body, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		if method, ok := call.Fun.(*ast.SelectorExpr); ok {
			of, _ := method.X.(*ast.Ident)
			inTrap := of != nil && of.Name == "trap" && slices.Contains([]string{"Run", "Call"}, method.Sel.Name)
			found = found || inTrap || method.Sel.Name == "run" && len(call.Args) == 3
		}
		return true
	})
	return found
}
