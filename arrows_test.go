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

// layers are the packages from the bottom up, folder by folder: a package imports only packages above it in this list.
var layers = []string{
	"internal/base/text", "internal/base/valuelists", "internal/base/procs", "internal/base/trap", "internal/base/stall", "internal/base/standard", "internal/base/disk",
	"internal/base/backoff", "internal/base/location", "internal/base/jsonscan", "internal/base/codec",
	"internal/base/collector", "internal/base/loopback", "internal/base/limits", "internal/base/formats",
	"internal/base/calltimes", "internal/base/samples", "internal/base/build", "python", "job", "internal/wire", "timers",
	"internal/temporal/embedded", "internal/temporal/search", "internal/temporal/lookup", "internal/temporal/orphans",
	"internal/temporal/entry", "internal/temporal/devserver", "internal/feedclient", "internal/feedclient/feedsim",
	"jobs",
	"internal/data/pipeline", "internal/data/records", "internal/data/store/object", "internal/data/store/local",
	"internal/data/store/bucket", "internal/data/store", "internal/data/failures", "internal/data/ledger", "internal/data/stages",
	"internal/data/stages/stagestest", "internal/data/reuse", "internal/data/unique", "internal/data/newfiles", "internal/data/inputs", "internal/data/outputs", "internal/data/redrive",
	"internal/data/feeds", "internal/data/loops",
	"internal/run/watchdog", "internal/run/frames", "internal/run/meters", "internal/run/guard", "internal/run/command",
	"internal/run/remote",
	"internal/run/permits", "internal/run/company", "internal/run/tuning", "internal/run/pace", "internal/run/child", "internal/run/calls",
	"internal/run/calls/callstest", "internal/run/traces", "internal/predict", "internal/web/tokens", "internal/web/endpoint", "internal/web/gateway", "internal/web/page", "internal/web/jobmetrics", "feedstore",
	"activities", "workflows/internal/execute", "workflows/internal/details", "workflows/internal/suspicion",
	"workflows/internal/throttle", "workflows/internal/pool", "workflows/internal/intake",
	"workflows/internal/stagewindow", "workflows/internal/dispatch", "workflows/internal/coordinate",
	"workflows/internal/pages", "workflows/internal/files", "workflows/internal/redrive", "workflows/internal/feed",
	"workflows/internal/loop", "workflows", "worker", "local", "starter",
	"internal/test/metricnames", "internal/test/mutants", "internal/test/randomjobs", "internal/test/programs", "internal/test/pytest", "internal/test/jobtest",
	"internal/test/clustertest", "internal/test/testserver", "internal/test/testserver/serve", "internal/test/modeltest",
	"internal/release",
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

// folderOf returns the folder that a package lies in: of internal, one of those in it.
func folderOf(name string) string {
	first, rest, _ := strings.Cut(name, "/")
	if first != "internal" {
		return first
	}
	second, _, _ := strings.Cut(rest, "/")
	return first + "/" + second
}

// A drawing of the folders alone shows the way of an item: the packages of each stand together in the list, so that
// imports between folders point one way, too.
func TestArrows_BetweenFolders(t *testing.T) {
	t.Parallel()
	var folders []string
	for _, name := range layers {
		if folder := folderOf(name); len(folders) == 0 || folders[len(folders)-1] != folder {
			require.NotContains(t, folders, folder, "%q stands apart from the others of its folder", name)
			folders = append(folders, folder)
		}
	}
}

// job and timers are for users: they stand on very little.
func TestArrows_OfThePublicPackages(t *testing.T) {
	t.Parallel()
	allowed := map[string][]string{
		"job":    {"internal/base/text", "internal/base/location", "internal/base/limits", "internal/base/formats", "internal/base/calltimes", "internal/base/samples"},
		"jobs":   {"job", "internal/base/limits", "internal/base/backoff", "internal/base/jsonscan", "internal/base/location", "internal/base/samples", "internal/base/text", "internal/base/trap", "internal/wire", "internal/temporal/search", "internal/temporal/lookup", "internal/feedclient"},
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
		if slices.Contains(imports, module+"/internal/temporal/devserver") {
			require.Contains(t, []string{"starter", "local", "bench", "internal/test/testserver/serve"}, name)
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
func linked(t *testing.T, name string, flags ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append(append([]string{"list", "-deps"}, flags...), "./"+name)...).Output()
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
		"internal/data/records": {temporal}, "internal/data/ledger": {temporal}, "internal/run/calls": {temporal}, "internal/run/frames": {temporal},
		"internal/data/stages": {temporal}, "internal/wire": {temporal}, "job": {temporal}, "timers": {temporal}, "internal/run/watchdog": {temporal},
		"workflows": ours("internal/data/store", "internal/data/inputs", "internal/data/outputs", "internal/data/ledger", "activities", "jobs"),
		"worker":    {server}, "jobs": {server},
	} {
		for _, found := range linked(t, name) {
			require.False(t, slices.ContainsFunc(forbidden, func(f string) bool { return strings.HasPrefix(found, f) }), "%s links %s", name, found)
		}
	}
}

// IN4: the program for workers and clients of a cluster has no server, web UI or database, nor what only Go handlers use.
func TestArrows_OfTheWorkersProgram(t *testing.T) {
	t.Parallel()
	forbidden := []string{"go.temporal.io/server", "github.com/temporalio/ui-server", "github.com/labstack/echo", "modernc.org/", "github.com/goccy/", "cloud.google.com/", "k8s.io/"}
	found := linked(t, "cmd/stint-worker", "-tags", "noserver,nofastjson")
	require.Contains(t, found, module+"/worker")
	for _, name := range found {
		require.False(t, slices.ContainsFunc(forbidden, func(f string) bool { return strings.HasPrefix(name, f) }), name)
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
