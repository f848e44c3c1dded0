package local

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store/object"
	"github.com/stint-run/stint/internal/test/jobtest"
)

// TestAhead writes files of sizes around those of buffers and blocks, in pieces of any size.
func TestAhead(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	whole := make([]byte, (aheadDepth+3)*aheadBuffer)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(whole)
	sizes := []int{0, 1, blockSize - 1, blockSize, blockSize + 1, aheadBuffer - 1, aheadBuffer, aheadBuffer + 1, 2 * aheadBuffer, 3*aheadBuffer + blockSize, len(whole)}
	for _, bulk := range []bool{false, true} {
		for _, size := range sizes {
			dir, root := setupLocal(t)
			w, err := dir.CreateWith(t.Context(), "out", object.WriteOptions{Bulk: bulk})
			require.NoError(t, err)
			for left := whole[:size]; len(left) > 0; {
				n := 1 + random.IntN(min(len(left), 2*aheadBuffer))
				written, err := w.Write(left[:n])
				require.NoError(t, err)
				require.Equal(t, n, written)
				left = left[n:]
			}
			require.NoError(t, w.Commit())
			got, err := os.ReadFile(filepath.Join(root, "out"))
			require.NoError(t, err)
			require.True(t, bytes.Equal(whole[:size], got), "%d bytes, bulk %v", size, bulk)
		}
	}
}

// TestAhead_Error: an error of the writing goroutine reaches the caller, and ends the writer.
func TestAhead_Error(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "x"))
	require.NoError(t, err)
	readOnly, err := os.Open(f.Name())
	require.NoError(t, err)
	require.NoError(t, f.Close())
	defer readOnly.Close()
	a := &ahead{disk: pacer{f: readOnly, cached: true}}
	block := make([]byte, aheadBuffer)
	for i := 0; err == nil; i++ {
		require.LessOrEqual(t, i, aheadDepth+1, "it fails soon")
		_, err = a.Write(block)
	}
	require.ErrorIs(t, err, syscall.EBADF)
	require.ErrorIs(t, a.sync(), syscall.EBADF)
	a.end()
	a.end()
}

// TestPacer_Alignment: what cannot go past the page cache goes through it.
func TestPacer_Alignment(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x")
	f, err := createDirect(path, 0o666)
	require.NoError(t, err)
	defer f.Close()
	p := pacer{f: f}
	for range 3 {
		n, err := p.Write([]byte("not a block\n"))
		require.NoError(t, err)
		require.Equal(t, 12, n)
	}
	require.NoError(t, p.last([]byte("end\n")))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "not a block\nnot a block\nnot a block\nend\n", string(got))
}

// TestScratch: an unfinished object may lie elsewhere, where that can be renamed to its place.
func TestScratch(t *testing.T) {
	t.Parallel()
	names := func(dir string) []string {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	dir, root := setupLocal(t)
	require.NoError(t, dir.Put(t.Context(), "sub/out", []byte("old")))
	scratch := t.TempDir()
	w, err := dir.CreateWith(t.Context(), "sub/out", object.WriteOptions{Bulk: true, Scratch: scratch})
	require.NoError(t, err)
	require.True(t, w.(*writer).InScratch())
	require.Len(t, names(scratch), 1)
	require.Equal(t, []string{"out"}, names(filepath.Join(root, "sub")))
	_, err = w.Write([]byte("new"))
	require.NoError(t, err)
	require.NoError(t, w.Commit())
	require.Empty(t, names(scratch))
	got, err := dir.Get(t.Context(), "sub/out")
	require.NoError(t, err)
	require.Equal(t, "new", string(got))

	w, err = dir.CreateWith(t.Context(), "sub/out", object.WriteOptions{Scratch: scratch})
	require.NoError(t, err)
	w.Abort()
	require.Empty(t, names(scratch))

	unusable := func(t *testing.T, place string) {
		w, err := dir.CreateWith(t.Context(), "other/out", object.WriteOptions{Scratch: place})
		require.NoError(t, err)
		require.False(t, w.(*writer).InScratch())
		require.Len(t, names(filepath.Join(root, "other")), 1, "beside its place")
		_, err = w.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, w.Commit())
		require.NoError(t, dir.Delete(t.Context(), "other/out"))
	}
	t.Run("missing", func(t *testing.T) { unusable(t, filepath.Join(root, "missing")) })
	t.Run("of another file system", func(t *testing.T) { unusable(t, jobtest.Elsewhere(t)) })
}
