package main

import (
	"go/ast"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/stint-run/stint"

// layers are the packages from the bottom up: a package imports only packages above it in this list.
var layers = []string{
	"internal/text", "internal/procs", "internal/trap", "internal/stall", "internal/disk", "internal/backoff", "internal/location", "internal/jsonscan", "internal/codec", "internal/collector", "internal/mutants", "internal/randomjobs", "internal/embedded", "internal/pytest", "internal/loopback",
	"python", "internal/limits", "internal/formats", "internal/calltimes", "job", "internal/wire", "internal/pipeline", "internal/search", "internal/lookup", "internal/feedclient", "internal/feedclient/feedsim", "jobs", "timers", "internal/watchdog", "internal/jobtest", "internal/orphans", "internal/entry",
	"internal/frames", "internal/records", "internal/store/object", "internal/store/local", "internal/store/bucket", "internal/store", "internal/meters", "internal/guard", "internal/permits", "internal/company", "internal/tuning", "internal/endpoint", "internal/child", "internal/devserver", "internal/testserver", "internal/testserver/serve", "internal/gateway",
	"internal/calls", "internal/calls/callstest", "internal/ledger", "internal/stages", "internal/stages/stagestest", "internal/inputs", "internal/outputs", "internal/redrive", "internal/feeds", "internal/loops", "internal/predict", "feedstore",
	"activities", "internal/modeltest", "workflows/internal/execute", "workflows/internal/details", "workflows/internal/suspicion", "workflows/internal/throttle", "workflows/internal/pool", "workflows/internal/intake", "workflows/internal/stagewindow", "workflows/internal/dispatch",
	"workflows/internal/coordinate", "workflows/internal/pages", "workflows/internal/files", "workflows/internal/redrive", "workflows/internal/feed", "workflows/internal/loop",
	"workflows", "worker", "local", "starter",
	"examples/birdstrikes", "examples/earthquakes", "examples/probe", "bench/child", "bench", "",
}

// packagesOf lists the module's packages with what follows each, as go list prints it.
func packagesOf(t *testing.T, format string) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} "+format, "./...").Output()
	require.NoError(t, err)
	found := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		found[strings.TrimPrefix(strings.TrimPrefix(fields[0], module), "/")] = fields[1:]
	}
	return found
}

// Imports point one way, and a new package has a place among the others.
func TestArrows_PointOneWay(t *testing.T) {
	t.Parallel()
	for name, imports := range packagesOf(t, `{{join .Imports " "}}`) {
		at := slices.Index(layers, name)
		if at < 0 && len(imports) > 0 {
			t.Errorf("package %q has no place in the list of layers", name)
			continue
		}
		for _, imported := range imports {
			imported, ours := strings.CutPrefix(imported, module+"/")
			if ours && slices.Index(layers, imported) >= at {
				t.Errorf("package %q imports %q, against the arrow", name, imported)
			}
		}
	}
}

// job and timers are for users: they stand on very little.
func TestArrows_OfThePublicPackages(t *testing.T) {
	t.Parallel()
	allowed := map[string][]string{
		"job":    {"internal/text", "internal/location", "internal/limits", "internal/formats", "internal/calltimes"},
		"jobs":   {"job", "internal/limits", "internal/backoff", "internal/jsonscan", "internal/location", "internal/text", "internal/trap", "internal/wire", "internal/search", "internal/lookup", "internal/feedclient"},
		"timers": {},
	}
	packages := packagesOf(t, `{{join .Imports " "}}`)
	for name, few := range allowed {
		for _, imported := range packages[name] {
			if imported, ours := strings.CutPrefix(imported, module+"/"); ours {
				require.Contains(t, few, imported, "package %s", name)
			}
		}
	}
}

// Only programs with everything embedded link the server.
func TestArrows_ToTheServer(t *testing.T) {
	t.Parallel()
	for name, imports := range packagesOf(t, `{{join .Imports " "}}`) {
		if slices.Contains(imports, module+"/internal/devserver") {
			require.Contains(t, []string{"starter", "local", "bench", "internal/testserver", "internal/testserver/serve"}, name)
		}
	}
}

// Each kind of job is a folder, and what they share knows none of them.
func TestArrows_KindsOfJobsAreFolders(t *testing.T) {
	t.Parallel()
	kinds := []string{"files", "redrive", "feed", "loop"}
	packages := packagesOf(t, `{{join .Imports " "}}`)
	for _, kind := range kinds {
		folder := module + "/workflows/internal/" + kind
		for name, imports := range packages {
			if slices.Contains(imports, folder) {
				require.Equal(t, "workflows", name, "only the factory knows %s", kind)
			}
		}
		require.Contains(t, packages["workflows"], folder)
	}
}

// linked are the packages that a package links, in go list's order.
func linked(t *testing.T, name string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "./"+name).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

// What runs items knows nothing of Temporal, workflows know nothing of files, and what users import brings no server.
func TestArrows_OfWhatIsLinked(t *testing.T) {
	t.Parallel()
	const temporal, server = "go.temporal.io/", "go.temporal.io/server"
	ours := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, module+"/"+name)
		}
		return all
	}
	for name, forbidden := range map[string][]string{
		"internal/records": {temporal}, "internal/ledger": {temporal}, "internal/calls": {temporal}, "internal/frames": {temporal},
		"internal/stages": {temporal}, "internal/wire": {temporal}, "job": {temporal}, "timers": {temporal}, "internal/watchdog": {temporal},
		"workflows": ours("internal/store", "internal/inputs", "internal/outputs", "internal/ledger", "activities", "jobs"),
		"worker":    {server}, "jobs": {server},
	} {
		for _, found := range linked(t, name) {
			require.False(t, slices.ContainsFunc(forbidden, func(f string) bool { return strings.HasPrefix(found, f) }), "%s links %s", name, found)
		}
	}
}

// What users import is small: so many names at most, methods and fields aside.
func TestExported_AreFew(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{"job": 90, "worker": 45, "timers": 15} {
		var exported []string
		for _, file := range product(t, only(name)) {
			exported = append(exported, exportedNames(file)...)
		}
		require.NotEmpty(t, exported, name)
		require.LessOrEqual(t, len(exported), most, "package %s exports %v", name, exported)
	}
}

// exportedNames returns the names that a file gives to other packages, without methods.
func exportedNames(file *ast.File) (names []string) {
	note := func(found ...*ast.Ident) {
		for _, name := range found {
			if name.IsExported() {
				names = append(names, name.Name)
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				note(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					note(s.Name)
				case *ast.ValueSpec:
					note(s.Names...)
				}
			}
		}
	}
	return names
}

// A package has one subject: it is small enough to be read. starter has a file for most commands.
func TestPackages_AreSmall(t *testing.T) {
	t.Parallel()
	const most, mostOfStarter = 28, 45
	for name, files := range packagesOf(t, `{{join .GoFiles " "}} {{join .IgnoredGoFiles " "}}`) {
		files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
		if name == "starter" {
			require.LessOrEqual(t, len(files), mostOfStarter, "%v", files)
			continue
		}
		require.LessOrEqual(t, len(files), most, "package %s: %v", name, files)
	}
}
