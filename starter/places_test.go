package starter

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/standard"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// A working directory that cannot be written is refused with the flags that name other places, unless none is needed.
func TestR14_AWorkingDirectoryThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	p := &Program{Dir: "/read/only"}
	byDefault := job.Spec{Errors: filepath.Join(p.Dir, stdoutErrors)}
	elsewhere := job.Spec{Output: "/o", Errors: "/o.errors.jsonl"}
	never := func(string) bool { return false }
	check := func(spec job.Spec, writable func(string) bool, args ...string) error {
		fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
		fs.String("state", defaultState, "")
		require.NoError(t, fs.Parse(args))
		return (&runOptions{}).checkPlaces(fs, p, spec, writable)
	}
	require.ErrorContains(t, check(byDefault, never), "name another place with --state DIR and --errors FILE")
	require.ErrorContains(t, check(elsewhere, never), "name another place with --state DIR")
	require.ErrorContains(t, check(byDefault, never, "--state", "/s"), "name another place with --errors FILE")
	require.NoError(t, check(elsewhere, never, "--state", "/s"))
	require.NoError(t, check(elsewhere, func(dir string) bool { return dir != p.Dir }), "the state lies in a directory of its own")
	require.NoError(t, check(byDefault, func(string) bool { return true }))
	require.True(t, standard.Writable(t.TempDir()))
	require.False(t, standard.Writable(filepath.Join(t.TempDir(), "none")))

	gone := t.TempDir()
	require.NoError(t, os.Remove(gone))
	require.False(t, standard.Writable(gone))
}
