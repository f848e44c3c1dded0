package local

import (
	"path/filepath"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// What a run may reach is what its spec names: inputs for reading only.
func TestOwnRoots(t *testing.T) {
	t.Parallel()
	at := func(name string) string { return filepath.Join(t.TempDir(), name) }
	in, out := at("in"), at("out")
	r := &run{state: at("state"), spec: job.Spec{
		Name: "x", Pool: "x", Store: at("store"), Output: out + "/result", Report: "s3://b/reports/r.json?region=x",
		Files: &job.Files{Input: []string{"-", in + "/a.txt", in + "/sub/*.txt", "s3://b/in/*.txt?region=x", "s3://b/one.txt?region=x"}},
	}}
	write, read := r.ownRoots()
	require.Equal(t, []string{r.state, r.spec.Store, out, out, "s3://b/reports?region=x"}, write)
	require.Equal(t, []string{
		in + "/a.txt", in + "/sub/*.txt", in + "/sub", "s3://b/in/*.txt?region=x", "s3://b/in?region=x", "s3://b/one.txt?region=x",
	}, read)
}

// D33: an output whose name cannot be used is refused with the reason, and inputs of any name lie in roots.
func TestD33_NamesOfOutputs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"x.lock", "new\nline", `back\slash`} {
		spec := job.Spec{Output: "/out/" + name}
		err := (&run{state: "/state"}).makeAbsolute(&spec)
		require.ErrorContains(t, err, "checking the output")
		require.ErrorContains(t, err, "choose another name")
	}
	r := &run{state: "/state", spec: job.Spec{Name: "x", Pool: "x", Output: "/out/x", Files: &job.Files{Input: []string{"/in/yarn.lock", "/in/new\nline*"}}}}
	_, read := r.ownRoots()
	require.Equal(t, []string{"/in/yarn.lock", "/in/new\nline*", "/in"}, read)
}
