package worker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-run/stint/internal/test/pytest"
	"github.com/stretchr/testify/require"
)

// A program in Python imports the helper although nobody has copied it beside the program.
func TestR19_TheHelperIsOnThePathOfPrograms(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots = 1
	program := filepath.Join(f.dir, "program.py")
	require.NoError(t, os.WriteFile(program, []byte("import stint\nstint.serve(lambda items: [item * 2 for item in items])\n"), 0o600))
	o := f.run(Serve(pytest.Find(t), program), "in.jsonl", "1\n2\n")
	require.Empty(t, o.failures)
	require.Equal(t, "2\n4\n", o.output)
}

// What the user says about PYTHONPATH counts.
func TestR19_ThePathOfTheUserStays(t *testing.T) {
	t.Parallel()
	for _, env := range [][]string{{"PYTHONPATH=/own"}, {"PYTHONPATH"}} {
		f := setup(t)
		f.options.Env, f.options.Slots = env, 1
		f.options.CallItems = 1
		f.serve(f.answers(`echo "$PYTHONPATH" > $BOX/path`))
		f.flowOf("in.jsonl", "1\n")
		require.NotContains(t, f.read(filepath.Join(f.dir, "path")), "stint", env)
	}
}

// A file that is not whole, as after a crash, is replaced; without a cache the directory is temporary.
func TestR19_TheHelperIsWhole(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, writeHelper(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stint.py"), []byte("import"), 0o600))
	require.NoError(t, writeHelper(dir))
	require.NoError(t, writeHelper(dir))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	whole, err := os.ReadFile("../python/stint.py")
	require.NoError(t, err)
	there, err := os.ReadFile(filepath.Join(dir, "stint.py"))
	require.NoError(t, err)
	require.Equal(t, string(whole), string(there))

	h := pythonHelper{dir: dir, temporary: true}
	h.Close()
	h.Close()
	require.NoDirExists(t, dir)
}
