package ledger

import (
	"testing"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// shelf is a store with the manifests of runs.
type shelf struct {
	t   *testing.T
	dir store.Dir
	ref wire.Ref
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	ref := wire.Ref{Job: "test", Run: "run-1", Store: t.TempDir()}
	dir, err := (&store.Access{}).Open(t.Context(), ref.Store)
	require.NoError(t, err)
	return &shelf{t: t, dir: dir, ref: ref}
}

func (f *shelf) commit(previous []string, entries ...wire.Entry) string {
	f.t.Helper()
	key, err := WriteManifest(f.t.Context(), f.dir, f.ref, 0, previous, entries, wire.Besides{})
	require.NoError(f.t, err)
	return key
}

// gather collects what entries yields.
func (f *shelf) gather(heads ...string) []OwnedEntry {
	f.t.Helper()
	links, err := Chain(f.t.Context(), f.dir, heads)
	require.NoError(f.t, err)
	var all []OwnedEntry
	require.NoError(f.t, Entries(f.t.Context(), f.dir, links, func(e OwnedEntry) error {
		all = append(all, e)
		return nil
	}))
	return all
}
