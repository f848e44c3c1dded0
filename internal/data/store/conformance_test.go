package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		test func(t *testing.T, dir store.Dir)
	}{
		{"an object is what was put", testPut},
		{"ranges", testOpen},
		{"a missing object", testMissing},
		{"commit makes visible", testCommit},
		{"abort leaves nothing", testAbort},
		{"a cancelled context commits nothing", testCancelled},
		{"two writers of one key", testTwoWriters},
		{"many small writes", testSmallWrites},
		{"stat", testStat},
		{"list", testList},
		{"an empty dir", testEmpty},
		{"keys that are refused", testKeys},
		{"keys that are unusual", testUnusualKeys},
		{"delete", testDelete},
		{"guard", testGuard},
		{"guard excludes claim", testGuardExcludes},
		{"guards and claims at once", testGuardRace},
		{"claim if admitted", testClaimAdmitted},
		{"claims in order", testClaimOrder},
		{"a write that wants no change", testUnchanged},
		{"a removal", testRemoval},
		{"sweep", testSweep},
		{"sweep many", testSweepMany},
	}
	eachKind(t, func(t *testing.T, k kind) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.test(t, setup(t, k))
			})
		}
	})
}

func testPut(t *testing.T, dir store.Dir) {
	for _, data := range [][]byte{{}, []byte("x"), bytes.Repeat([]byte("0123456789abcdef"), 100_000)} {
		require.NoError(t, dir.Put(t.Context(), "a/b/key", data))
		got, err := dir.Get(t.Context(), "a/b/key")
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got), "%d bytes", len(data))
	}
}

func testOpen(t *testing.T, dir store.Dir) {
	require.NoError(t, dir.Put(t.Context(), "digits", []byte("0123456789")))
	require.NoError(t, dir.Put(t.Context(), "empty", nil))
	cases := []struct {
		key            string
		offset, length int64
		want           string
	}{
		{"digits", 0, -1, "0123456789"},
		{"digits", 3, -1, "3456789"},
		{"digits", 3, 4, "3456"},
		{"digits", 3, 0, ""},
		{"digits", 8, 100, "89"},
		{"digits", 10, -1, ""},
		{"digits", 10, 1, ""},
		{"digits", 100, 5, ""},
		{"empty", 0, -1, ""},
		{"empty", 0, 1, ""},
		{"empty", 0, 0, ""},
	}
	for _, c := range cases {
		r, err := dir.Open(t.Context(), c.key, c.offset, c.length)
		require.NoError(t, err, "%+v", c)
		got, err := io.ReadAll(r)
		require.NoError(t, err, "%+v", c)
		require.NoError(t, r.Close())
		require.Equal(t, c.want, string(got), "%+v", c)
	}
	_, err := dir.Open(t.Context(), "digits", -1, 1)
	require.ErrorIs(t, err, fs.ErrInvalid)
}

func testMissing(t *testing.T, dir store.Dir) {
	put(t, dir, "a/b")
	for _, key := range []string{"no", "no/such", "a", "a/b/c"} {
		_, err := dir.Get(t.Context(), key)
		require.ErrorIs(t, err, fs.ErrNotExist, key)
		require.True(t, store.Permanent(err))
		require.ErrorContains(t, err, key, "it says which")
		_, err = dir.Stat(t.Context(), key)
		require.ErrorIs(t, err, fs.ErrNotExist, key)
		for _, length := range []int64{-1, 0, 5} {
			_, err = dir.Open(t.Context(), key, 0, length)
			require.ErrorIs(t, err, fs.ErrNotExist, key)
		}
	}
}

func testCommit(t *testing.T, dir store.Dir) {
	require.NoError(t, dir.Put(t.Context(), "key", []byte("old")))
	w, err := dir.Create(t.Context(), "key")
	require.NoError(t, err)
	_, err = w.Write([]byte("new"))
	require.NoError(t, err)
	got, err := dir.Get(t.Context(), "key")
	require.NoError(t, err)
	require.Equal(t, "old", string(got))
	require.NoError(t, w.Commit())
	got, err = dir.Get(t.Context(), "key")
	require.NoError(t, err)
	require.Equal(t, "new", string(got))

	require.ErrorIs(t, w.Commit(), fs.ErrClosed)
	_, err = w.Write([]byte("more"))
	require.ErrorIs(t, err, fs.ErrClosed)
	w.Abort()
	got, err = dir.Get(t.Context(), "key")
	require.NoError(t, err)
	require.Equal(t, "new", string(got), "an abort after the commit does nothing")
}

func testAbort(t *testing.T, dir store.Dir) {
	for _, size := range []int{0, 10, 1 << 20} {
		w, err := dir.Create(t.Context(), "x/y/key")
		require.NoError(t, err)
		_, err = w.Write(make([]byte, size))
		require.NoError(t, err)
		w.Abort()
		w.Abort()
		require.ErrorIs(t, w.Commit(), fs.ErrClosed)
		require.Empty(t, keys(t, dir, ""))
	}
	if local, ok := dir.Local(); ok {
		require.NoDirExists(t, local, "directories made for it are gone too")
	}
}

func testCancelled(t *testing.T, dir store.Dir) {
	ctx, cancel := context.WithCancel(t.Context())
	w, err := dir.Create(ctx, "key")
	require.NoError(t, err)
	_, err = w.Write([]byte("data"))
	require.NoError(t, err)
	cancel()
	err = w.Commit()
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, store.Permanent(err))
	require.Empty(t, keys(t, dir, ""))
	_, err = dir.Get(ctx, "key")
	require.Error(t, err)
}

func testTwoWriters(t *testing.T, dir store.Dir) {
	one, err := dir.Create(t.Context(), "key")
	require.NoError(t, err)
	two, err := dir.Create(t.Context(), "key")
	require.NoError(t, err)
	_, err = one.Write([]byte("one"))
	require.NoError(t, err)
	_, err = two.Write([]byte("two"))
	require.NoError(t, err)
	require.NoError(t, two.Commit())
	require.NoError(t, one.Commit())
	got, err := dir.Get(t.Context(), "key")
	require.NoError(t, err)
	require.Equal(t, "one", string(got), "the last commit stands")
	require.Equal(t, []string{"key"}, keys(t, dir, ""))
}

func testSmallWrites(t *testing.T, dir store.Dir) {
	w, err := dir.Create(t.Context(), "key")
	require.NoError(t, err)
	defer w.Abort()
	var want bytes.Buffer
	for i := range 100_000 {
		line := fmt.Appendf(nil, "line %d\n", i)
		want.Write(line)
		if _, err := w.Write(line); err != nil {
			t.Fatal(err) // require would take longer than the writing
		}
	}
	require.NoError(t, w.Commit())
	got, err := dir.Get(t.Context(), "key")
	require.NoError(t, err)
	require.True(t, bytes.Equal(want.Bytes(), got))
}

func testStat(t *testing.T, dir store.Dir) {
	before := time.Now().Add(-2 * time.Second)
	require.NoError(t, dir.Put(t.Context(), "a/key", []byte("12345")))
	info, err := dir.Stat(t.Context(), "a/key")
	require.NoError(t, err)
	require.Equal(t, "a/key", info.Key)
	require.EqualValues(t, 5, info.Size)
	require.True(t, info.ModTime.After(before))
	_, local := dir.Local()
	require.Equal(t, local, info.ETag == "")
	for listed, err := range dir.List(t.Context(), "") {
		require.NoError(t, err)
		require.Equal(t, info, listed, "a listing says the same")
	}
	require.True(t, info.Same(info))
	if !local {
		require.NoError(t, dir.Put(t.Context(), "a/key", []byte("54321")))
		changed, err := dir.Stat(t.Context(), "a/key")
		require.NoError(t, err)
		require.False(t, info.Same(changed))
	}
}

func testList(t *testing.T, dir store.Dir) {
	all := []string{"a-b/x", "a.txt", "a/x", "a/x.y", "a/y/z", "a0", "b/.hidden", "b/c/d/e", "Z"}
	put(t, dir, all...)
	sorted := slices.Sorted(slices.Values(all))
	require.Equal(t, sorted, keys(t, dir, ""))
	for _, prefix := range []string{"a", "a/", "a/x", "a/y/", "b/c", "b/c/d/e", "b/c/d/e/", "nothing", "no/thing", "a/x.y/no"} {
		want := []string{}
		for _, key := range sorted {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		require.Equal(t, want, keys(t, dir, prefix), "prefix %q", prefix)
	}
	n := 0
	for range dir.List(t.Context(), "") {
		if n++; n == 2 {
			break
		}
	}
	require.Equal(t, 2, n)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range dir.List(ctx, "") {
		require.ErrorIs(t, err, context.Canceled)
	}
}

func testEmpty(t *testing.T, dir store.Dir) {
	require.Empty(t, keys(t, dir, ""))
	require.NoError(t, dir.Delete(t.Context(), "key"))
	removed, err := dir.Sweep(t.Context(), "", func(string) bool { return false })
	require.NoError(t, err)
	require.Zero(t, removed)
	require.ErrorAs(t, dir.Guard(t.Context(), "CURRENT", "run", nil), new(*store.FencedError))
	if local, ok := dir.Local(); ok {
		require.NoDirExists(t, local, "looking makes nothing")
	}
}

func testKeys(t *testing.T, dir store.Dir) {
	for _, key := range []string{
		"", "/", ".", "..", "/a", "a/", "a//b", "a/../b", "../a", "a/..", "./a", "a/./b", `a\b`, "a\nb", "a\x00b",
		"key.lock", "a/key.lock", ".key.abcdefghijklm.tmp",
	} {
		err := dir.Put(t.Context(), key, nil)
		require.ErrorIs(t, err, fs.ErrInvalid, "%q", key)
		require.True(t, store.Permanent(err))
		_, err = dir.Get(t.Context(), key)
		require.ErrorIs(t, err, fs.ErrInvalid, "%q", key)
		_, err = dir.Stat(t.Context(), key)
		require.ErrorIs(t, err, fs.ErrInvalid, "%q", key)
		require.ErrorIs(t, dir.Delete(t.Context(), key), fs.ErrInvalid, "%q", key)
		require.ErrorIs(t, dir.Claim(t.Context(), key, "", nil), fs.ErrInvalid, "%q", key)
		require.ErrorIs(t, dir.Guard(t.Context(), key, "", nil), fs.ErrInvalid, "%q", key)
	}
	for _, prefix := range []string{"/", "../", "a/../", "/a", "a//", "./x"} {
		_, err := dir.Sweep(t.Context(), prefix, func(string) bool { return true })
		require.ErrorIs(t, err, fs.ErrInvalid, "%q", prefix)
		for _, err := range dir.List(t.Context(), prefix) {
			require.ErrorIs(t, err, fs.ErrInvalid, "%q", prefix)
		}
	}
}

func testUnusualKeys(t *testing.T, dir store.Dir) {
	unusual := []string{"..a", "a b?c=d&e", "é/日本", "%20", "tmp", ".tmp", ".x.tmp", "lock", strings.Repeat("n", 240), "a+b#c"}
	put(t, dir, unusual...)
	require.Equal(t, slices.Sorted(slices.Values(unusual)), keys(t, dir, ""))
	for _, key := range unusual {
		got, err := dir.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, "content of "+key, string(got))
		require.NoError(t, dir.Delete(t.Context(), key))
	}
	require.Empty(t, keys(t, dir, ""))
}

func testDelete(t *testing.T, dir store.Dir) {
	put(t, dir, "a/b", "c")
	require.NoError(t, dir.Delete(t.Context(), "c"))
	require.NoError(t, dir.Delete(t.Context(), "c"), "again")
	require.NoError(t, dir.Delete(t.Context(), "a"), "not an object")
	require.NoError(t, dir.Delete(t.Context(), "a/b/c"))
	require.Equal(t, []string{"a/b"}, keys(t, dir, ""))
}

func testGuard(t *testing.T, dir store.Dir) {
	var fenced *store.FencedError
	never := func(context.Context) error { t.Error("fn ran"); return nil }
	require.ErrorAs(t, dir.Guard(t.Context(), "CURRENT", "run-1", never), &fenced)
	require.Equal(t, store.FencedError{Key: "CURRENT", Want: "run-1"}, *fenced)
	require.NoError(t, dir.Claim(t.Context(), "CURRENT", "run-1", nil))
	require.NoError(t, dir.Claim(t.Context(), "CURRENT", "run-1", nil), "again")
	ran := false
	require.NoError(t, dir.Guard(t.Context(), "CURRENT", "run-1", func(ctx context.Context) error {
		ran = true
		return dir.Put(ctx, "out", nil)
	}))
	require.True(t, ran)
	failure := errors.New("failure")
	require.ErrorIs(t, dir.Guard(t.Context(), "CURRENT", "run-1", func(context.Context) error { return failure }), failure)

	require.NoError(t, dir.Claim(t.Context(), "CURRENT", "run-2", nil))
	require.ErrorAs(t, dir.Guard(t.Context(), "CURRENT", "run-1", never), &fenced)
	require.Equal(t, store.FencedError{Key: "CURRENT", Want: "run-1", Have: "run-2"}, *fenced)
	require.True(t, store.Permanent(fenced))
	require.Equal(t, []string{"CURRENT", "out"}, keys(t, dir, ""), "locks are not listed")
}

// testClaimAdmitted claims if what the object holds allows it, and leaves it as it is if not.
func testClaimAdmitted(t *testing.T, dir store.Dir) {
	var held []string
	admit := func(now string) error { held = append(held, now); return nil }
	require.NoError(t, dir.Claim(t.Context(), "CURRENT", "run-1", admit))
	require.NoError(t, dir.Claim(t.Context(), "CURRENT", "run-2", admit))
	refusal := errors.New("refusal")
	require.ErrorIs(t, dir.Claim(t.Context(), "CURRENT", "run-3", func(string) error { return refusal }), refusal)
	require.NoError(t, dir.Guard(t.Context(), "CURRENT", "run-2", func(context.Context) error { return nil }), "it is as it was")
	require.Equal(t, []string{"", "run-1"}, held)
}

// testClaimOrder has claims of different ranks at once: the greatest is there at the end.
func testClaimOrder(t *testing.T, dir store.Dir) {
	var wg sync.WaitGroup
	for i := range 20 {
		me := fmt.Sprintf("%02d", i)
		wg.Go(func() {
			err := dir.Claim(t.Context(), "CURRENT", me, func(held string) error {
				if held > me {
					return errors.New("overtaken")
				}
				return nil
			})
			if err != nil && me == "19" {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := dir.Get(t.Context(), "CURRENT")
	require.NoError(t, err)
	require.Equal(t, "19", string(got))
}

// testGuardExcludes holds a Guard and sees that a Claim waits for it, through another Access.
func testGuardExcludes(t *testing.T, dir store.Dir) {
	other := open(t, newAccess(t), dir.Location())
	require.NoError(t, dir.Claim(t.Context(), "CURRENT", "run-1", nil))
	claimed := make(chan error, 1)
	require.NoError(t, dir.Guard(t.Context(), "CURRENT", "run-1", func(ctx context.Context) error {
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, other.Claim(short, "CURRENT", "run-2", nil), context.DeadlineExceeded)
		require.NoError(t, other.Claim(ctx, "OTHER", "run-2", nil), "another key is free")
		go func() { claimed <- other.Claim(t.Context(), "CURRENT", "run-2", nil) }()
		got, err := dir.Get(ctx, "CURRENT")
		require.NoError(t, err)
		require.Equal(t, "run-1", string(got))
		return nil
	}))
	require.NoError(t, <-claimed)
	require.ErrorAs(t, dir.Guard(t.Context(), "CURRENT", "run-1", nil), new(*store.FencedError))
}

func testGuardRace(t *testing.T, dir store.Dir) {
	require.NoError(t, dir.Claim(t.Context(), "CURRENT", "0", nil))
	var inside, overlaps, published atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		me := fmt.Sprint(i)
		wg.Go(func() {
			for range 10 {
				if err := dir.Claim(t.Context(), "CURRENT", me, nil); err != nil {
					t.Error(err)
				}
				err := dir.Guard(t.Context(), "CURRENT", me, func(ctx context.Context) error {
					if inside.Add(1) != 1 {
						overlaps.Add(1)
					}
					defer inside.Add(-1)
					got, err := dir.Get(ctx, "CURRENT")
					if err != nil || string(got) != me {
						overlaps.Add(1)
					}
					published.Add(1)
					return nil
				})
				if fenced := new(store.FencedError); err != nil && !errors.As(err, &fenced) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, overlaps.Load())
	require.NotZero(t, published.Load())
}

func testSweep(t *testing.T, dir store.Dir) {
	put(t, dir, "run1/a", "run1/keep/b", "run1/sub/sub/c", "run10/x", "run2/y", "z")
	w, err := dir.Create(t.Context(), "run1/sub/unfinished") // as if its process had died
	require.NoError(t, err)
	t.Cleanup(w.Abort)
	require.Equal(t, []string{"run1/a", "run1/keep/b", "run1/sub/sub/c"}, keys(t, dir, "run1/"))

	var asked []string
	removed, err := dir.Sweep(t.Context(), "run1/", func(key string) bool {
		asked = append(asked, key)
		return strings.Contains(key, "keep")
	})
	require.NoError(t, err)
	require.Equal(t, []string{"run1/a", "run1/keep/b", "run1/sub/sub/c"}, asked)
	require.Equal(t, []string{"run1/keep/b", "run10/x", "run2/y", "z"}, keys(t, dir, ""))
	want := 2
	if local, ok := dir.Local(); ok {
		want = 3
		require.Equal(t, []string{"run1/keep/b", "run10/x", "run2/y", "z"}, files(t, local))
		require.NoDirExists(t, local+"/run1/sub", "empty directories go too")
	}
	require.Equal(t, want, removed)

	removed, err = dir.Sweep(t.Context(), "run", nil)
	require.NoError(t, err)
	require.Zero(t, removed, "nil keeps all")
	removed, err = dir.Sweep(t.Context(), "", func(string) bool { return false })
	require.NoError(t, err)
	require.Equal(t, 4, removed)
	require.Empty(t, keys(t, dir, ""))
	if local, ok := dir.Local(); ok {
		put(t, dir, "run/x")
		_, err = dir.Sweep(t.Context(), "run/", func(string) bool { return false })
		require.NoError(t, err)
		require.NoDirExists(t, local+"/run")
		require.DirExists(t, local)
	}
}

func testSweepMany(t *testing.T, dir store.Dir) {
	for i := range 100 {
		put(t, dir, fmt.Sprintf("run/%d/%02d", i%3, i))
	}
	removed, err := dir.Sweep(t.Context(), "run/", func(key string) bool { return strings.HasSuffix(key, "0") })
	require.NoError(t, err)
	require.Equal(t, 90, removed)
	require.Len(t, keys(t, dir, ""), 10)

	ctx, cancel := context.WithCancel(t.Context())
	_, err = dir.Sweep(ctx, "run/", func(string) bool { cancel(); return false })
	require.ErrorIs(t, err, context.Canceled)
}

// testUnchanged: what another process has written or removed meanwhile is not replaced. A local Dir has its lock for
// that.
func testUnchanged(t *testing.T, dir store.Dir) {
	has, err := store.Conditional(t.Context(), dir, "a/key")
	require.NoError(t, err)
	require.True(t, has)
	require.Empty(t, keys(t, dir, ""), "nothing is left of the question")
	t.Run("small", func(t *testing.T) { testUnchangedOf(t, dir, []byte("mine")) })
	t.Run("in several parts", func(t *testing.T) { testUnchangedOf(t, dir, make([]byte, 17<<20)) }) // S3 gets more than 16 MiB so
}

// testUnchangedOf is testUnchanged with an object of that content.
func testUnchangedOf(t *testing.T, dir store.Dir, mine []byte) {
	begin := func() store.Writer {
		w, err := store.CreateUnchanged(t.Context(), dir, "a/key")
		require.NoError(t, err)
		_, err = w.Write(mine)
		require.NoError(t, err)
		return w
	}
	_, local := dir.Local()
	require.NoError(t, dir.Delete(t.Context(), "a/key"))
	require.NoError(t, begin().Commit(), "the first")
	require.NoError(t, begin().Commit(), "it replaces what it has seen")
	require.NoError(t, dir.Delete(t.Context(), "a/key"))
	for _, c := range []struct {
		before    bool // there is an object
		meanwhile func() error
		want      string // of the content; empty: there is none
	}{
		{false, func() error { return dir.Put(t.Context(), "a/key", []byte("other")) }, "other"},
		{true, func() error { return dir.Put(t.Context(), "a/key", []byte("new")) }, "new"},
		{true, func() error { return dir.Delete(t.Context(), "a/key") }, ""},
	} {
		w := begin()
		require.NoError(t, c.meanwhile())
		err := w.Commit()
		if local {
			require.NoError(t, err)
			continue
		}
		replaced := new(store.ReplacedError)
		require.ErrorAs(t, err, &replaced)
		require.ErrorContains(t, err, "a/key: another process has written or removed it meanwhile")
		require.False(t, store.Permanent(err), "the next try looks again")
		got, err := dir.Get(t.Context(), "a/key")
		require.Equal(t, c.want == "", errors.Is(err, fs.ErrNotExist), "%v", err)
		require.Equal(t, c.want, string(got))
	}
}

// testRemoval: what is removed is what was there.
func testRemoval(t *testing.T, dir store.Dir) {
	removal := func() func(context.Context) error {
		remove, err := store.Removal(t.Context(), dir, "a/key")
		require.NoError(t, err)
		return remove
	}
	require.NoError(t, removal()(t.Context()), "nothing is there")
	put(t, dir, "a/key")
	require.NoError(t, removal()(t.Context()))
	require.Empty(t, keys(t, dir, ""))
	remove := removal()
	put(t, dir, "a/key")
	require.NoError(t, remove(t.Context()))
	if _, local := dir.Local(); !local {
		require.Equal(t, []string{"a/key"}, keys(t, dir, ""))
	}
}
