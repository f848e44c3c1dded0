package activities

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestPlan_OutputMustBePossible(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		change  func(f *fixture)
		problem string
	}{
		{"output is a directory", func(f *fixture) {
			require.NoError(f.t, os.Mkdir(f.path("out.jsonl"), 0o777))
		}, "is a directory: write"},
		{"no directory for the output", func(f *fixture) { f.spec.Output = f.path("none/out.jsonl") }, "make it first"},
		{"no directory for the prefix", func(f *fixture) { f.spec.Output = f.path("none/out") + "/" }, "make it first"},
		{"file in the place of the prefix", func(f *fixture) { f.write("out", ""); f.spec.Output = f.path("out") + "/" }, "not a directory"},
		{"file in the place of the directory", func(f *fixture) { f.write("sub", ""); f.spec.Output = f.path("sub/out.jsonl") }, "directory"},
		{"no directory for the errors", func(f *fixture) { f.spec.Errors = f.path("none/errors.jsonl") }, "make it first"},
		{"no directory for the report", func(f *fixture) { f.spec.Report = f.path("none/report.json") }, "make it first"},
		{"report is a directory", func(f *fixture) {
			require.NoError(f.t, os.Mkdir(f.path("report"), 0o777))
			f.spec.Report = f.path("report")
		}, "is a directory"},
		{"unknown scheme", func(f *fixture) { f.spec.Output = "ftp://host/x" }, "unknown"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", jobtest.Lines(1))
			test.change(f)
			_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
			jobtest.RequireType(t, err, job.ErrorOutput)
			require.ErrorContains(t, err, test.problem)
		})
	}
}

// Looking whether outputs can be written leaves nothing behind and touches nothing.
func TestPlan_OutputCheckLeavesNoTrace(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(1))
	f.spec.Errors, f.spec.Report = f.path("errors.jsonl"), f.path("report.json")
	f.write("out.jsonl", "of an earlier job")
	f.plan()
	require.Equal(t, "of an earlier job", f.read("out.jsonl"))
	found, err := filepath.Glob(f.path("*"))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{f.path("in.jsonl"), f.path("out.jsonl"), f.path("out.jsonl.stint")}, found)
}

// Files that a job writes itself are not among its inputs, wherever they are.
func TestPlan_LeavesItsOwnFilesOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		output, input string
		want, leftOut int
	}{
		{"in/out.jsonl", "in", 2, 7}, // output, errors, report and four files of the store
		{"in/out.jsonl", "in/*.jsonl", 2, 2},
		{"in/out/", "in", 2, 6},
		{"out.jsonl", "in", 2, 1},
	} {
		t.Run(c.output+" of "+c.input, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in/a.jsonl", "1\n", "in/b.jsonl", "2\n")
			f.spec.Files.Input, f.spec.Output, f.spec.Report = []string{f.path(c.input)}, f.path(c.output), f.path("in/report.json")
			f.spec.Store, f.spec.Errors = "", ""
			if c.output[len(c.output)-1] == '/' {
				f.spec.Output += "/"
			}
			f.newRun("run-1")
			f.write("in/report.json", "{}\n")
			if f.spec.Errors != "" {
				require.NoError(t, os.MkdirAll(filepath.Dir(f.spec.Errors), 0o777))
				require.NoError(t, os.WriteFile(f.spec.Errors, []byte("{}\n"), 0o666))
			}
			for _, name := range []string{"earlier/manifests/x.jsonl", "earlier/errors/y.jsonl"} {
				_ = f.store().Put(t.Context(), name, []byte("3\n"))
			}
			if !store.IsPrefix(f.spec.Output) {
				require.NoError(t, os.WriteFile(f.spec.Output, []byte("4\n"), 0o666))
			}
			_, result := f.page(10)
			require.Equal(t, c.leftOut, result.LeftOut)
			table, err := f.acts.inputs.Table(t.Context(), f.store(), result.Sources)
			require.NoError(t, err)
			files := 0
			for _, s := range table.Sources {
				files++
				if s.Bundle != nil {
					files += s.Bundle.Inputs - 1
				}
			}
			require.Equal(t, c.want, files)
		})
	}
}

// X1: an input that is named is not left out, and must not be replaced: the job fails before it has done anything.
func TestPlan_NamedOwnFile(t *testing.T) {
	t.Parallel()
	f := setup(t, "real/in.jsonl", "1\n")
	require.NoError(t, os.Symlink("real", f.path("link")))
	for _, c := range []struct{ input, output string }{{"link/in.jsonl", "real/in.jsonl"}, {"real/in.jsonl", "link/in.jsonl"}} {
		f.spec.Files.Input, f.spec.Output, f.spec.Store, f.spec.Errors = []string{f.path(c.input)}, f.path(c.output), "", ""
		f.newRun("run-1")
		_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 1})
		jobtest.RequireType(t, err, job.ErrorInput)
		require.ErrorContains(t, err, "name another input, or another place")
		require.Equal(t, []string{ledger.CurrentKey}, f.keys(""), "no table is left")
	}

	// Neither does a resumed job whose output has moved there.
	f.spec.Output, f.spec.Store, f.spec.Errors = f.path("out.jsonl"), f.path("store"), ""
	f.newRun("run-2")
	head := f.commit(nil, f.processAll(f.plan())...)
	f.spec.Output, f.spec.Errors = f.path("link/in.jsonl"), ""
	f.newRun("run-3")
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Resume: []string{head}, Batches: 1})
	jobtest.RequireType(t, err, job.ErrorInput)
}

// Two outputs that are one file are refused.
func TestPlan_OutputsThatAreOneFile(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", "1\n", "real/x", "")
	require.NoError(t, os.Symlink("real", f.path("link")))
	f.spec.Files.Input, f.spec.Output, f.spec.Errors = f.spec.Files.Input[:1], f.path("real/out.jsonl"), f.path("link/out.jsonl")
	f.newRun("run-1")
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 1})
	jobtest.RequireType(t, err, job.ErrorOutput)
	require.ErrorContains(t, err, "link/out.jsonl is the same file as")
}

// An input of which nothing is left is as good as missing.
func TestPlan_OnlyOwnFiles(t *testing.T) {
	t.Parallel()
	f := setup(t, "in/out.jsonl", "1\n")
	f.spec.Files.Input, f.spec.Output, f.spec.Store = []string{f.path("in")}, f.path("in/out.jsonl"), ""
	f.newRun("run-1")
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 1})
	jobtest.RequireType(t, err, job.ErrorInput)
}
