package local

import (
	"bytes"
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store/object"
)

// TestSweptWhileWriting: the writer of a presumed-dead run finds its temporary file gone.
func TestSweptWhileWriting(t *testing.T) {
	t.Parallel()
	dir, root := setupLocal(t)
	w, err := dir.Create(t.Context(), "run/part")
	require.NoError(t, err)
	_, err = dir.Sweep(t.Context(), "run/", nil)
	require.NoError(t, err)
	err = w.Commit()
	require.ErrorContains(t, err, "removed by someone")
	require.NotErrorIs(t, err, fs.ErrNotExist)
	require.False(t, object.Permanent(err), "another attempt can do it")
	require.NoDirExists(t, filepath.Join(root, "run"))
}

// TestSettle: a settled object is on the disk, under its temporary name, with no file open; Commit renames it, Abort
// removes it.
func TestSettle(t *testing.T) {
	t.Parallel()
	dir, root := setupLocal(t)
	settle := func(key string) *writer {
		created, err := dir.Create(t.Context(), key)
		require.NoError(t, err)
		w := created.(*writer)
		_, err = w.Write([]byte("content"))
		require.NoError(t, err)
		require.NoError(t, w.Settle())
		require.ErrorIs(t, w.f.Close(), os.ErrClosed)
		require.NoFileExists(t, filepath.Join(root, key))
		_, err = w.Write([]byte("more"))
		require.ErrorIs(t, err, fs.ErrClosed)
		return w
	}
	kept := settle("kept")
	require.NoError(t, kept.Settle(), "it can be repeated")
	require.NoError(t, kept.Commit())
	kept.Abort()
	settle("gone").Abort()
	data, err := dir.Get(t.Context(), "kept")
	require.NoError(t, err)
	require.Equal(t, "content", string(data))
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing else is left")
}

// TestUndo: what is undone is not in the object, wherever the marks are, through the page cache or past it.
func TestUndo(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir, _ := setupLocal(t)
	for i := range 20 {
		created, err := dir.CreateWith(t.Context(), "undone", object.WriteOptions{Bulk: i%2 == 0})
		require.NoError(t, err)
		w := created.(*writer)
		var want, marked []byte
		w.Mark()
		for range 8 {
			switch random.IntN(3) {
			case 0:
				w.Mark()
				marked = slices.Clone(want)
			case 1:
				require.NoError(t, w.Undo())
				want = slices.Clone(marked)
			default:
				data := bytes.Repeat([]byte{byte(random.Uint32())}, random.IntN(3*aheadBuffer))
				_, err := w.Write(data)
				require.NoError(t, err)
				want = append(want, data...)
			}
		}
		require.NoError(t, w.Commit())
		require.ErrorIs(t, w.Undo(), fs.ErrClosed)
		got, err := dir.Get(t.Context(), "undone")
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%d bytes, not %d", len(got), len(want))
	}
}

// TestCreateWhileSwept makes directories that sweeps keep removing as empty.
func TestCreateWhileSwept(t *testing.T) {
	t.Parallel()
	dir, _ := setupLocal(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_, _ = dir.Sweep(ctx, "a/", func(string) bool { return false })
		}
	})
	for range 50 {
		w, err := dir.Create(t.Context(), "a/b/c/key")
		require.NoError(t, err)
		w.Abort()
	}
	cancel()
	wg.Wait()
}

func TestNotWritable(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	dir, err := OpenDir("here", "/proc/self/stint", everything{})
	require.NoError(t, err)
	_, err = dir.Create(t.Context(), "key")
	require.Error(t, err, "nobody can make a directory in /proc")
	require.True(t, object.Permanent(err), "%v", err)
	require.True(t, strings.HasPrefix(err.Error(), "writing /proc/self/stint/key: "), "%v", err)
}

// TestNoSpace writes to the device that is always full.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	fd, err := syscall.Open("/dev/full", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("needs /dev/full")
	}
	// The name leads to nothing: Abort must not remove the device.
	f := os.NewFile(uintptr(fd), filepath.Join(t.TempDir(), "full"))
	w := newWriter(t.Context(), f, filepath.Join(t.TempDir(), "x"), "/out/x", object.WriteOptions{})
	_, err = w.Write(make([]byte, 10))
	require.NoError(t, err, "buffered")
	err = w.Commit()
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.False(t, object.Permanent(err), "it passes when there is room")
	require.EqualError(t, err, "writing /out/x: no space left on device (free some space on the disk at /, and the job continues)")
	require.ErrorIs(t, w.Commit(), fs.ErrClosed)
}

func TestBulkWriter(t *testing.T) {
	t.Parallel()
	dir, root := setupLocal(t)
	w, err := dir.CreateWith(t.Context(), "out", object.WriteOptions{Bulk: true, Size: 80 << 20})
	require.NoError(t, err)
	defer w.Abort()
	block := make([]byte, 1<<20)
	for i := range 80 {
		block[0] = byte(i)
		_, err := w.Write(block)
		require.NoError(t, err)
	}
	require.NoError(t, w.(*writer).Sync())
	require.NoError(t, w.(*writer).Sync())
	require.NoError(t, w.Commit())
	data, err := os.ReadFile(filepath.Join(root, "out"))
	require.NoError(t, err)
	require.Len(t, data, 80<<20)
	for i := range 80 {
		require.Equal(t, byte(i), data[i<<20])
	}
}
