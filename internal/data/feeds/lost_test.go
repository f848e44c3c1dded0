package feeds

import (
	"fmt"
	"testing"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// manifests writes manifests, each with the given ranges of items, and returns them.
func manifests(t *testing.T, dir store.Dir, each ...[][2]int64) (links ledger.List) {
	t.Helper()
	ref := wire.Ref{Job: "risk", Run: "run-1"}
	for _, ranges := range each {
		var entries []wire.Entry
		for _, r := range ranges {
			entries = append(entries, wire.Entry{Batch: wire.Batch{First: r[0], Count: r[1] - r[0]}.Sealed(), OK: r[1] - r[0], Part: ledger.NewToken()})
		}
		key, err := ledger.WriteManifest(t.Context(), dir, ref, 1, nil, entries, wire.Besides{})
		require.NoError(t, err)
		found, err := ledger.Chain(t.Context(), dir, []string{key})
		require.NoError(t, err)
		links = append(links, found...)
	}
	return links
}

func openMem(t *testing.T) store.Dir {
	t.Helper()
	access := &store.Access{}
	t.Cleanup(func() { require.NoError(t, access.Close()) })
	dir, err := access.Open(t.Context(), "mem://feeds/"+t.Name())
	require.NoError(t, err)
	return dir
}

// A manifest that nobody has heard of counts only if all that it has is lost otherwise: outcomes that are known are not
// taken again.
func TestFillsGaps_WithNothingElse(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		ranges [][2]int64
		fits   bool
	}{
		{[][2]int64{{4, 6}}, true},
		{[][2]int64{{4, 5}, {5, 8}, {12, 13}}, true},
		{nil, false},
		{[][2]int64{{0, 2}}, false},
		{[][2]int64{{0, 2}, {4, 6}}, false},
		{[][2]int64{{4, 6}, {20, 22}}, false},
		{[][2]int64{{2, 6}}, false},
		{[][2]int64{{4, 9}}, false},
		{[][2]int64{{4, 6}, {5, 7}}, false},
	} {
		p := &plan{dir: openMem(t), lost: []gap{{first: 4, end: 8}, {first: 12, end: 14}}}
		fits, err := p.fillsGaps(t.Context(), manifests(t, p.dir, c.ranges))
		require.NoError(t, err)
		require.Equal(t, c.fits, fits, fmt.Sprint(i, c.ranges))
	}
}

// G9: items that are in two manifests are not two outcomes.
func TestFindGaps_ItemsInTwoParts(t *testing.T) {
	t.Parallel()
	p := &plan{dir: openMem(t)}
	require.NoError(t, p.findGaps(t.Context(), manifests(t, p.dir, [][2]int64{{0, 3}}, [][2]int64{{3, 5}})))
	require.EqualValues(t, 5, p.result.Resumed.OK)
	for _, second := range [][2]int64{{2, 5}, {0, 3}, {1, 2}} {
		p := &plan{dir: openMem(t)}
		err := p.findGaps(t.Context(), manifests(t, p.dir, [][2]int64{{0, 3}}, [][2]int64{second}))
		jobtest.RequireType(t, err, job.ErrorBooks)
		require.ErrorContains(t, err, "are in two accepted parts")
	}
}

// G9: a commit has each item once, whatever has become of it.
func TestCheckRanges_OverlapsAreRefused(t *testing.T) {
	t.Parallel()
	entry := func(first, count int64) wire.FeedEntry {
		return wire.FeedEntry{Entry: wire.Entry{Batch: wire.Batch{First: first, Count: count}}}
	}
	left := func(first int64, count int) wire.FeedItems {
		return wire.FeedItems{First: first, Items: make(wire.Items, count)}
	}
	require.NoError(t, checkRanges([]wire.FeedEntry{entry(0, 2), entry(5, 1)}, []wire.FeedItems{left(2, 3)}))
	for _, c := range []struct {
		entries    []wire.FeedEntry
		unfinished []wire.FeedItems
		problem    string
	}{
		{[]wire.FeedEntry{entry(0, 2), entry(1, 2)}, nil, "items 1 to 1 are committed twice"},
		{[]wire.FeedEntry{entry(0, 5), entry(1, 2)}, nil, "items 1 to 2 are committed twice"},
		{[]wire.FeedEntry{entry(0, 2)}, []wire.FeedItems{left(1, 3)}, "items 1 to 1 are committed twice"},
		{nil, []wire.FeedItems{left(1, 3), left(3, 3)}, "items 3 to 3 are committed twice"},
		{[]wire.FeedEntry{entry(3, 0)}, nil, "is not one"},
		{[]wire.FeedEntry{entry(-1, 2)}, nil, "is not one"},
	} {
		err := checkRanges(c.entries, c.unfinished)
		jobtest.RequireType(t, err, job.ErrorBooks)
		require.ErrorContains(t, err, c.problem)
	}
}
