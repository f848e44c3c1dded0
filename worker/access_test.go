package worker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A command line's files are the program, and what its arguments name.
func TestHandler_Files(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"run.sh", "model.py", "weights"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	at := func(name string) string { return filepath.Join(dir, name) }
	require.Equal(t, []string{at("run.sh"), at("model.py"), at("weights")},
		commandFiles([]string{"./run.sh", "-u", "model.py", "--weights=weights", "sub", "none", ""}, dir))
	require.Equal(t, []string{at("run.sh"), at("weights")}, commandFiles([]string{at("run.sh"), at("weights")}, ""))
	require.Len(t, commandFiles([]string{"sh", "-c", "x"}, dir), 1)
	require.Empty(t, commandFiles(nil, dir))
	require.Empty(t, commandFiles([]string{"no-such-program-here"}, dir))
}

func TestAccess_ProtectsTheWorkersOwnFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	filter, state := filepath.Join(dir, "filter"), filepath.Join(dir, "state")
	require.NoError(t, os.WriteFile(filter, []byte("#!/bin/sh\n"), 0o755))
	own, err := os.Executable()
	require.NoError(t, err)
	for _, allow := range [][]string{nil, {AllowAll}, {"/"}} {
		access := Options{Allow: allow, Protect: []string{state}}.access(Serve(filter))
		t.Cleanup(func() { require.NoError(t, access.Close()) })
		for _, path := range []string{filter, own, filepath.Join(state, "db")} {
			to, err := access.Open(t.Context(), filepath.Dir(path))
			require.NoError(t, err)
			require.ErrorContains(t, to.Put(t.Context(), filepath.Base(path), nil), "belongs to the worker itself", path)
			require.ErrorContains(t, to.Delete(t.Context(), filepath.Base(path)), "belongs to the worker itself", path)
		}
		to, err := access.Open(t.Context(), dir)
		require.NoError(t, err)
		require.NoError(t, to.Put(t.Context(), "out.txt", nil))
	}
	data, err := os.ReadFile(filter)
	require.NoError(t, err)
	require.Equal(t, "#!/bin/sh\n", string(data))
}

func TestOptions_Allow(t *testing.T) {
	t.Parallel()
	for _, allow := range [][]string{nil, {AllowAll}, {"/data", "s3://bucket/x"}, {"./all", "data"}} {
		require.NoError(t, Options{Allow: allow}.withDefaults().validate())
	}
	require.ErrorContains(t, Options{Allow: []string{""}}.withDefaults().validate(), `Allow ""`)
	require.ErrorContains(t, Options{Allow: []string{"/data", AllowAll}}.withDefaults().validate(), "use it alone")
	require.ErrorContains(t, Options{Allow: []string{"ftp://x/y"}}.withDefaults().validate(), "unknown")
}

// A relative program is the one in the working directory of the command, wherever this process is.
func TestFindProgram_Relative(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "filter"), []byte("#!/bin/sh\nexec cat\n"), 0o755))
	relative, err := filepath.Rel(here, dir)
	require.NoError(t, err)
	path, err := findProgram([]string{"./filter"}, relative)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "filter"), path)

	f := setup(t)
	f.options.Dir = relative
	require.Equal(t, "a\n", f.run(Exec("./filter"), "in.txt", "a\n").output)
	require.NoError(t, HookCommand("./filter")(t.Context(), HookCall{dir: relative}))
}
