package activities

import (
	"os"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stretchr/testify/require"
)

// An output named .gz or .zst is compressed, and so are error records and dropped items; results are read back from it,
// from any item on, and a redrive merges into it.
func TestD27_CompressedOutputs(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{".gz", ".zst"} {
		t.Run(ending, func(t *testing.T) {
			t.Parallel()
			f := setup(t, "in.jsonl", jobtest.Lines(40))
			f.spec.Output, f.spec.Errors, f.spec.Dropped = f.path("out.jsonl"+ending), f.path("errors.jsonl"+ending), f.path("dropped.jsonl"+ending)
			f.spec.Store, f.spec.BatchItems = "", 8
			f.newRun("run-1")
			m := newModel(f, calls.Lines, 3)
			m.decide = func(ordinal int64) outcomeOf {
				if ordinal == 20 {
					return outcomeOf{drop: true}
				}
				return failingAt(0, 11, 12, 39)(ordinal)
			}
			m.run()
			require.Len(t, m.failed, 4)
			for _, location := range []string{f.spec.Output, f.spec.Errors, f.spec.Dropped} {
				raw, err := os.ReadFile(location)
				require.NoError(t, err)
				require.NotContains(t, string(raw), "result", "%s is compressed", location)
				require.NotEmpty(t, m.fetch(location))
			}
			whole := m.fetch(f.spec.Output)
			from, _ := f.results(m.done, false, 16)
			require.Equal(t, 24-2, strings.Count(from, "\n"))
			require.True(t, strings.HasSuffix(whole, from))

			m.decide = failingAt(12)
			m.run()
			require.Len(t, m.failed, 1)
			m.decide = failingAt()
			m.run()
			require.NoFileExists(t, f.spec.Errors)
			m.requireSwept()
		})
	}
}

// A table can be compressed, and the files that results are split into; an output without a result is an empty file of
// its kind.
func TestD27_CompressedTablesAndSplits(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{".gz", ".zst"} {
		f := setup(t, "in.jsonl", `{"a":1,"b":"x"}`+"\n"+`{"a":2,"b":"y"}`+"\n")
		f.spec.Output, f.spec.Store, f.spec.Errors = f.path("out.csv"+ending), "", ""
		f.newRun("run-1")
		head := f.commit(nil, f.processAll(f.plan())...)
		report := f.finished(head)
		require.Equal(t, "a,b\n1,x\n2,y\n", f.fetch(f.spec.Output))
		raw, err := os.ReadFile(f.spec.Output)
		require.NoError(t, err)
		require.EqualValues(t, len(raw), report.Output.Bytes)
		require.Equal(t, sumOf(string(raw)), report.Output.Checksum)

		f.spec.Output, f.spec.Store, f.spec.Errors, f.spec.Split = f.path("{}.jsonl"+ending), "", "", "b"
		f.newRun("run-2")
		f.finish(f.commit(nil, f.processAll(f.plan())...))
		require.Equal(t, `{"a":2,"b":"y"}`+"\n", f.fetch(f.path("y.jsonl"+ending)))

		f = setup(t, "in.jsonl", "")
		f.spec.Output, f.spec.Store = f.path("out.jsonl"+ending), ""
		f.newRun("run-1")
		f.plan()
		f.finish()
		require.FileExists(t, f.spec.Output)
		require.Empty(t, f.fetch(f.spec.Output))
		r, err := outputs.OpenFile(t.Context(), f.acts.opts.Access, f.spec.Output, 0, -1)
		require.NoError(t, err)
		require.NoError(t, r.Close())
	}
}
