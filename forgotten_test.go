package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests notice what is easily forgotten of a new thing: the compiler does not.

// product returns the product's files of the folders whose names wanted takes, parsed.
func product(t *testing.T, wanted func(folder string) bool) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || !wanted(filepath.ToSlash(filepath.Dir(path))):
			return nil
		}
		files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		return err
	}))
	require.NotEmpty(t, files)
	return files
}

// only takes some folders; without takes all but some, and what is below these.
func only(folders ...string) func(string) bool {
	return func(folder string) bool {
		for _, f := range folders {
			if folder == f {
				return true
			}
		}
		return false
	}
}

func without(folders ...string) func(string) bool {
	return func(folder string) bool {
		for _, f := range folders {
			if folder == f || strings.HasPrefix(folder, f+"/") {
				return false
			}
		}
		return true
	}
}

// uses are the names that files select (what is behind the dot), and those of fields that they set.
type uses struct{ selected, set map[string]bool }

func usesIn(files map[string]*ast.File) uses {
	u := uses{map[string]bool{}, map[string]bool{}}
	sets := func(e ast.Expr) {
		if s, ok := e.(*ast.SelectorExpr); ok {
			u.set[s.Sel.Name] = true
		}
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				u.selected[n.Sel.Name] = true
				if of, ok := n.X.(*ast.Ident); ok {
					u.selected[of.Name+"."+n.Sel.Name] = true
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					u.set[key.Name] = true
				}
			case *ast.AssignStmt:
				for _, l := range n.Lhs {
					sets(l)
				}
			case *ast.IncDecStmt:
				sets(n.X)
			}
			return true
		})
	}
	return u
}

// declared are the exported fields of a struct, or the constants whose names begin with that, of package job.
func declared(t *testing.T, name string) (names []string) {
	t.Helper()
	for _, file := range product(t, only("job")) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok && n.Name.Name == name {
					for _, f := range s.Fields.List {
						for _, id := range f.Names {
							names = append(names, id.Name)
						}
					}
				}
			case *ast.GenDecl:
				for _, s := range n.Specs {
					if v, ok := s.(*ast.ValueSpec); ok && n.Tok == token.CONST && strings.HasPrefix(v.Names[0].Name, name) {
						names = append(names, v.Names[0].Name)
					}
				}
			}
			return true
		})
	}
	require.NotEmpty(t, names, name)
	return names
}

// Something fails with each kind of failure.
func TestForgotten_KindsOfFailure(t *testing.T) {
	t.Parallel()
	used := usesIn(product(t, without("job", "examples", "bench", "internal/base/limits")))
	for _, kind := range declared(t, "Kind") {
		require.True(t, used.selected["job."+kind], "nothing fails with job.%s", kind)
	}
}

// notShown are fields of a report that no command shows, because they are for stint itself, or for programs.
var notShown = map[string]bool{
	"Between": true, "Alone": true, "Summed": true, "InputBytes": true, "Busy": true, "Unserved": true, "UnservedPools": true,
	"Silent": true, "TotalBytes": true, "OpenLegs": true, "Manifests": true, "LegManifests": true, "Salvage": true, "Unsaved": true,
	"Life": true, "Samples": true, // as its Rates
}

// Each field of a report, of its outcomes and of its totals is set by those who know it, and a command shows it.
func TestForgotten_FieldsOfReports(t *testing.T) {
	t.Parallel()
	known := usesIn(product(t, without("job", "starter", "examples", "bench")))
	shown := usesIn(product(t, only("starter")))
	for _, name := range slices.Concat(declared(t, "Totals"), declared(t, "Outcomes"), declared(t, "Report")) {
		listed := strings.TrimSuffix(name, "Omitted") // whose sum counts what is not in the list
		require.True(t, known.set[listed], "nothing sets %s", name)
		require.Equal(t, !notShown[name], shown.selected[name], "%s: a command shows it, or it is in the list of this test", name)
	}
}

// Each field of a stage has its key in a job file.
func TestForgotten_KeysOfStages(t *testing.T) {
	t.Parallel()
	keys := usesIn(product(t, only("starter")))
	for _, name := range declared(t, "Stage") {
		require.True(t, keys.selected["stage."+name], "no key of a job file sets %s", name)
	}
}

// The worker counts whatever there is a metric for.
func TestForgotten_Metrics(t *testing.T) {
	t.Parallel()
	counted := usesIn(product(t, only("worker")))
	for path, file := range product(t, only("internal/run/meters")) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.IsExported() {
				require.True(t, counted.selected[f.Name.Name], "the worker does not call %s of %s", f.Name.Name, path)
			}
		}
	}
}

// Each handler that is made of texts alone, such as a command, has its flag.
func TestForgotten_FlagsOfHandlers(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("starter/handlers.go")
	require.NoError(t, err)
	handlers := 0
	for _, file := range product(t, only("worker")) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || !makesHandlerOfTexts(f.Type) {
				continue
			}
			handlers++
			require.Contains(t, string(text), "worker."+f.Name.Name, "no flag makes it")
		}
	}
	require.Positive(t, handlers)
}

func makesHandlerOfTexts(f *ast.FuncType) bool {
	if f.Results == nil || len(f.Results.List) != 1 {
		return false
	}
	if r, ok := f.Results.List[0].Type.(*ast.Ident); !ok || r.Name != "Handler" {
		return false
	}
	for _, p := range f.Params.List {
		of := p.Type
		if many, ok := of.(*ast.Ellipsis); ok {
			of = many.Elt
		}
		if id, ok := of.(*ast.Ident); !ok || id.Name != "string" {
			return false
		}
	}
	return true
}
