package ledger

import (
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// Asked in the order of a sweep, it knows the parts that the chain names, and holds those of one ordinal only.
func TestAccepted(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 5)
	f := newShelf(t)
	named := map[string]map[string]bool{"run-1": {}, "run-2": {}}
	all := map[string]map[string]bool{"run-1": {}, "run-2": {}}
	var heads []string
	at := int64(0)
	for range 30 {
		var entries []wire.Entry
		for range random.IntN(40) {
			e := wire.Entry{Batch: wire.Batch{First: at, Count: random.Int64N(3), Length: 1}.Sealed(), Part: NewToken(), Bytes: random.Int64N(2), ErrBytes: random.Int64N(2)}
			if random.IntN(3) == 0 {
				e.Run = "run-2"
			}
			at += e.Count // the next one may begin where this one does
			owner := "run-1"
			if e.Run != "" {
				owner = e.Run
			}
			isNamed := random.IntN(2) == 0
			if isNamed {
				entries = append(entries, e)
			}
			for key, there := range map[string]bool{ResultsKey(owner, e): e.Bytes > 0, ErrorsKey(owner, e): e.ErrBytes > 0} {
				if there {
					all[owner][key] = true
					named[owner][key] = isNamed
				}
			}
		}
		heads = append(heads, f.commit(nil, entries...))
	}
	links, err := Chain(t.Context(), f.dir, heads)
	require.NoError(t, err)
	for run, keys := range all {
		for _, results := range []bool{true, false} {
			a := NewAccepted(t.Context(), f.dir, links, run, results)
			held := 0
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				require.Equal(t, named[run][key] && (results || path.Ext(key) == ".err"), a.Has(key), key)
				held = max(held, len(a.keys))
			}
			require.Less(t, held, 30, "of %d keys", len(keys))
			require.False(t, a.Has(run+"/manifests/x"))
			require.False(t, a.Has(run+"/parts/x"))
			require.True(t, a.Has(run+"/parts/000000000000000-x.out"), "out of order: better kept than lost")
			require.NoError(t, a.Close())
		}
	}
}

// Nothing is given up if the chain cannot be read.
func TestAccepted_UnreadableChain(t *testing.T) {
	t.Parallel()
	f := newShelf(t)
	head := f.commit(nil, wire.Entry{Batch: wire.Batch{Count: 1, Length: 1}.Sealed(), Part: "a"})
	links, err := Chain(t.Context(), f.dir, []string{head})
	require.NoError(t, err)
	require.NoError(t, f.dir.Delete(t.Context(), head))
	a := NewAccepted(t.Context(), f.dir, links, "run-1", true)
	require.True(t, a.Has("run-1/parts/000000000000007-x.out"))
	require.Error(t, a.Close())

	require.NoError(t, NewAccepted(t.Context(), f.dir, links, "run-1", true).Close(), "not read at all")
}
