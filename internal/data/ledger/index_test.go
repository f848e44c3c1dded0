package ledger

import (
	"fmt"
	"io"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// longFeed commits manifests of one entry each, as the legs of a feed do: most one after the other, and now and then
// two legs at once. It returns the heads after that.
func longFeed(t *testing.T, f *shelf, manifests int) (heads []string) {
	t.Helper()
	random := jobtest.Seeded(t, 19)
	commit := func(previous []string, first int64) string {
		e := wire.Entry{Batch: wire.Batch{First: first, Count: 1}.Sealed(), OK: 1, Part: fmt.Sprint(first)}
		key, err := WriteManifest(t.Context(), f.dir, f.ref, 0, previous, []wire.Entry{e}, wire.Besides{Below: first + 2})
		require.NoError(t, err)
		return key
	}
	for i := int64(0); i < int64(manifests); i++ {
		if random.IntN(50) == 0 && i+1 < int64(manifests) { // the older leg commits last, and knows nothing of the younger one's
			heads = []string{commit(heads, i+1), commit(heads, i)}
			i++
			continue
		}
		heads = []string{commit(heads, i)}
	}
	return heads
}

// The heads of a chain are found with a read for each index, and a reader from a cursor reads what lies there: it
// neither reads nor holds the whole life of a feed.
func TestD19_ALongChainIsReadByItsIndex(t *testing.T) {
	t.Parallel()
	const manifests = 70 * fanOut // more than one index of indexes
	const few = 4 * fanOut        // heads that no index lists, on three levels
	mem := openMem(t)
	f := &shelf{t: t, dir: mem, ref: wire.Ref{Job: "test", Run: "run-1"}}
	heads := longFeed(t, f, manifests)
	dir := &countingDir{Dir: mem}

	links, err := Chain(t.Context(), dir, heads)
	require.NoError(t, err)
	require.Len(t, links, manifests)
	require.LessOrEqual(t, dir.opened, manifests/fanOut*3/2+few)
	for i, l := range links {
		require.EqualValues(t, i, l.First)
		require.Equal(t, 1, l.Entries)
		require.EqualValues(t, i+2, l.Below)
		require.Equal(t, "run-1", l.Run)
	}

	for _, from := range []int64{0, 1, 1000, manifests / 2, manifests - 10, manifests} {
		var r Reader
		dir.opened = 0
		next := from
		require.NoError(t, r.Entries(t.Context(), dir, heads, from, func(e OwnedEntry) bool {
			if next == from {
				require.LessOrEqual(t, dir.opened, few, "before the first entry from %d on", from)
			}
			require.Equal(t, next, e.First)
			next++
			return next < from+100
		}))
		require.EqualValues(t, min(from+100, manifests), next)
		require.LessOrEqual(t, dir.opened, few+110, "for a hundred entries from %d on", from)

		grown := []string{f.commit(heads, wire.Entry{Batch: wire.Batch{First: manifests, Count: 1}.Sealed(), OK: 1, Part: "more"})}
		dir.opened = 0
		last := int64(0)
		require.NoError(t, r.Entries(t.Context(), dir, grown, manifests-1, func(e OwnedEntry) bool {
			last = e.First
			return true
		}))
		require.EqualValues(t, manifests, last)
		require.LessOrEqual(t, dir.opened, 6, "what is new, and what ends behind the cursor")
	}

	w, err := newWalk(t.Context(), mem, heads, 0, nil, nil)
	require.NoError(t, err)
	require.NoError(t, w.each(t.Context(), func(Link) error {
		require.LessOrEqual(t, len(w.todo), 2*few, "heads in memory")
		return nil
	}))
}

// A chain that was seen up to somewhere is read on from there.
func TestD19_ChainBeyondWhatWasSeen(t *testing.T) {
	t.Parallel()
	f := &shelf{t: t, dir: openMem(t), ref: wire.Ref{Job: "test", Run: "run-1"}}
	dir := &countingDir{Dir: f.dir}
	seen := map[string]bool{}
	var heads []string
	for i := range int64(5 * fanOut) {
		heads = []string{f.commit(heads, wire.Entry{Batch: wire.Batch{First: i, Count: 1}.Sealed(), OK: 1, Part: fmt.Sprint(i)})}
		dir.opened = 0
		links, err := ChainBeyond(t.Context(), dir, heads, seen)
		require.NoError(t, err)
		require.Len(t, links, 1)
		require.EqualValues(t, i, links[0].First)
		require.LessOrEqual(t, dir.opened, 2, "its head, and its index if it has one")
	}
}

// D19: who goes through the whole of a chain, as Finish does several times, holds few heads, whatever its length.
func TestD19_AlongALongChain(t *testing.T) {
	t.Parallel()
	const manifests = 70 * fanOut
	const few = 4 * fanOut
	mem := openMem(t)
	f := &shelf{t: t, dir: mem, ref: wire.Ref{Job: "test", Run: "run-1"}}
	heads := longFeed(t, f, manifests)
	dir := &countingDir{Dir: mem}

	links := Along(dir, heads)
	for range 2 {
		dir.opened = 0
		next := int64(0)
		require.NoError(t, links.Each(t.Context(), func(l Link) error {
			require.Equal(t, next, l.First)
			next++
			return nil
		}))
		require.EqualValues(t, manifests, next)
		require.LessOrEqual(t, dir.opened, manifests/fanOut*3/2+few)
	}
	require.ErrorIs(t, links.Each(t.Context(), func(Link) error { return io.ErrClosedPipe }), io.ErrClosedPipe)
	first, err := First(t.Context(), links)
	require.NoError(t, err)
	require.Zero(t, first.First)
	first, err = First(t.Context(), List{})
	require.NoError(t, err)
	require.Nil(t, first)
}
