package inputs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// namesOf reads the items of a table whose items are names, which lies in a store, or in memory.
func namesOf(t *testing.T, table *Table, dir store.Dir) (items []string) {
	t.Helper()
	require.Len(t, table.Sources, 1)
	source := &table.Sources[0]
	body := table.openNames
	if dir != nil {
		require.Empty(t, table.names)
	} else {
		require.Len(t, table.names, int(source.Size))
	}
	reader := records.NewReader(body(0), source.Shape)
	if dir != nil {
		reader = records.NewReader(OpenSpool(t.Context(), dir, source.Spool, 0, source.Size), source.Shape)
	}
	var chunk records.Chunk
	for reader.Read(&chunk, 7, 1<<20) == nil {
		for i := range chunk.Items {
			value, err := records.AppendJSON(&source.Shape, nil, &chunk.Items[i])
			require.NoError(t, err)
			items = append(items, string(value))
		}
	}
	return items
}

// Names are items without a look at the files: in the order in which inputs are found, whatever bytes they have, and
// without what the job writes itself.
func TestNames(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	var want []string
	for _, name := range []string{"d/a\nb", "d/c \"d\".gz", "d/e.unknown", "d/é", "z.txt"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(at(name)), 0o777))
		require.NoError(t, os.WriteFile(at(name), []byte("PAR1\x00"), 0o000))
		want = append(want, `"`+strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(at(name))+`"`)
	}
	require.NoError(t, os.WriteFile(at("d/out.txt"), nil, 0o666))
	spec := job.Spec{Name: "n", Output: at("d/out.txt"), Files: &job.Files{Input: []string{at("d"), at("z.txt")}, Names: true}}.WithDefaults()

	access := &store.Access{}
	n := New(access, nil)
	t.Cleanup(n.Close)
	table, err := n.List(t.Context(), nil, wire.PlanInput{Spec: spec})
	require.NoError(t, err)
	require.Equal(t, want, namesOf(t, table, nil))
	require.Equal(t, 1, table.LeftOut, "the output")

	dir, err := access.Open(t.Context(), at("store"))
	require.NoError(t, err)
	table, err = n.List(t.Context(), dir, wire.PlanInput{Spec: spec, Ref: wire.Ref{Job: "n", Run: "1", Sources: "sources/1"}})
	require.NoError(t, err)
	require.Equal(t, want, namesOf(t, table, dir))

	spec.Files.Input = []string{at("none-*")}
	_, err = n.List(t.Context(), nil, wire.PlanInput{Spec: spec})
	require.ErrorContains(t, err, "none-*")
}
