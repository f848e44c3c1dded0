package newfiles

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

func file(name string, size int64, at int) store.Input {
	return store.Input{URL: "/in/" + name, Info: store.Info{Size: size, ModTime: time.Unix(int64(at), 5)}}
}

// home is a place for lists, with the store of a run.
type home struct {
	t      *testing.T
	access *store.Access
	dir    store.Dir
	list   string
	runs   int
}

func newHome(t *testing.T) *home {
	h := &home{t: t, access: &store.Access{}, list: filepath.Join(t.TempDir(), ".n.completed-files")}
	t.Cleanup(func() { require.NoError(t, h.access.Close()) })
	dir, err := h.access.Open(t.Context(), filepath.Dir(h.list)+"/store/")
	require.NoError(t, err)
	h.dir = dir
	return h
}

// found has a run find files, and claim the store.
func (h *home) found(files ...store.Input) wire.Ref {
	h.t.Helper()
	h.runs++
	ref := wire.Ref{Run: fmt.Sprintf("run-%d", h.runs), Born: int64(h.runs)}
	ref.Sources = ledger.NewSourcesKey(ref)
	require.NoError(h.t, ledger.Claim(h.t.Context(), ref, h.dir))
	f, err := NewFound(h.t.Context(), h.dir, ref.Sources)
	require.NoError(h.t, err)
	for _, one := range files {
		require.NoError(h.t, f.Add(one))
	}
	require.NoError(h.t, f.End())
	f.Abort()
	return ref
}

func (h *home) complete(ref wire.Ref) {
	h.t.Helper()
	require.NoError(h.t, Complete(h.t.Context(), h.access, h.dir, ref, h.list))
}

func (h *home) read() List {
	h.t.Helper()
	list, err := Read(context.Background(), h.access, h.list)
	require.NoError(h.t, err)
	return list
}

// N2: a file is the same one by its name, its size, and its ETag or else its time.
func TestList_SameFile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	require.Zero(t, h.read().Len(), "the first run has none")
	etag := file("b", 7, 100)
	etag.ETag = "x"
	h.complete(h.found(file("a", 7, 100), etag))
	list := h.read()
	require.Equal(t, 2, list.Len())
	require.True(t, list.Has(file("a", 7, 100)))
	require.False(t, list.Has(file("b", 7, 100)))
	require.False(t, list.Has(file("a", 8, 100)))
	require.False(t, list.Has(file("a", 7, 101)))
	touched := file("a", 7, 100)
	touched.ModTime = touched.ModTime.Add(1)
	require.False(t, list.Has(touched), "a nanosecond later")
	etag.ModTime = time.Unix(1, 1)
	require.True(t, list.Has(etag), "the ETag says that it is the same")
	etag.ETag = "y"
	require.False(t, list.Has(etag))
}

// A list grows, whatever is repeated.
func TestComplete_AddsAndRepeats(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	first := h.found(file("a", 1, 1), file("b", 1, 1), file("a", 1, 1))
	require.Zero(t, h.read().Len(), "nothing is completed by being found")
	h.complete(first)
	h.complete(first)
	require.Equal(t, 2, h.read().Len())
	second := h.found(file("c", 1, 1))
	h.complete(second)
	require.Equal(t, 3, h.read().Len())
	require.NoError(t, h.dir.Delete(t.Context(), Key(second.Sources)))
	h.complete(second)
	require.Equal(t, 3, h.read().Len(), "Finish is repeated after it has removed what it needs no more")
}

// N3: a run that a newer one has taken the place of completes no file.
func TestComplete_OnlyTheCurrentRun(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	old := h.found(file("a", 1, 1))
	current := h.found(file("b", 1, 1))
	h.complete(old)
	require.Zero(t, h.read().Len())
	h.complete(current)
	require.False(t, h.read().Has(file("a", 1, 1)))
	require.True(t, h.read().Has(file("b", 1, 1)))
}

// N3: a list that is cut, changed or something else is empty, and the next run writes a sound one.
func TestRead_Broken(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.complete(h.found(file("a", 1, 1), file("b", 1, 1)))
	good, err := os.ReadFile(h.list)
	require.NoError(t, err)
	flipped := append([]byte{}, good...)
	flipped[len(flipped)-1] ^= 1
	for name, data := range map[string][]byte{
		"cut": good[:len(good)-1], "cut by a file": good[:len(good)-keyBytes], "longer": append(append([]byte{}, good...), 0), "empty": {},
		"changed": flipped, "text": []byte("hello\n"), "other": []byte(`{"format":"x"}` + "\n"), "no end": []byte(`{"format":`),
	} {
		require.NoError(t, os.WriteFile(h.list, data, 0o666))
		list := h.read()
		require.True(t, list.Broken, name)
		require.Zero(t, list.Len(), name)
		h.complete(h.found(file("c", 1, 1)))
		require.Equal(t, 1, h.read().Len(), name)
		require.False(t, h.read().Broken, name)
	}
}

// What is gone is forgotten first, and never what the run has found.
func TestMerge_Bound(t *testing.T) {
	t.Parallel()
	keys := func(names ...string) (all []key) {
		for _, name := range names {
			all = append(all, keyOf(file(name, 1, 1)))
		}
		return all
	}
	list := merge(keys("a", "b", "c"), keys("d", "b", "e"), 1)
	require.ElementsMatch(t, keys("c", "b", "d", "e"), list)
	require.Equal(t, keys("c")[0], list[0])
	require.ElementsMatch(t, keys("x", "y", "z"), merge(list, keys("x", "y", "z"), 0))
	require.Empty(t, merge(nil, nil, 1))
}

// A million files take 16 bytes each, in the list and in memory.
func BenchmarkComplete_MillionFiles(b *testing.B) {
	var found []key
	for i := range 1_000_000 {
		found = append(found, keyOf(file(fmt.Sprintf("a-directory/of-files/%07d.jsonl", i), 100, i)))
	}
	b.ReportAllocs()
	for b.Loop() {
		data := encode(merge(slices.Clone(found), found, maxGone))
		b.ReportMetric(float64(len(data))/1e6, "bytes/file")
	}
}
