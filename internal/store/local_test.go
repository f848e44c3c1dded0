package store

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func setupLocal(t *testing.T) (dir Dir, root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "root")
	dir, err := (&Access{}).Open(t.Context(), root)
	require.NoError(t, err)
	return dir, root
}

func TestTempName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "out.jsonl", ".hidden", "a.b.c", "é"} {
		temp := tempName(name)
		require.NotEqual(t, temp, tempName(name))
		got, ok := tempOf(temp)
		require.True(t, ok, temp)
		require.Equal(t, name, got)
		require.True(t, reserved(temp))
	}
	for _, name := range []string{"", ".", ".tmp", "out.tmp", ".out.tmp", ".out.ABCDEFGHIJKLM.tmp", "out.abcdefghijklm.tmp", "..abcdefghijklm.tmp", ".out.abcdefghijkl.tmp"} {
		_, ok := tempOf(name)
		require.False(t, ok, "%q", name)
	}
	long := tempName(strings.Repeat("é", 120))
	require.LessOrEqual(t, len(long), 255)
	name, ok := tempOf(long)
	require.True(t, ok)
	require.Equal(t, strings.Repeat("é", 100), name)
}

// TestCrashLeftovers leaves the files that a killed process leaves.
func TestCrashLeftovers(t *testing.T) {
	t.Parallel()
	dir, root := setupLocal(t)
	require.NoError(t, dir.Put(t.Context(), "run/part-1", []byte("x")))
	require.NoError(t, dir.Claim(t.Context(), "run/HELD", "x"))
	require.NoError(t, dir.Claim(t.Context(), "run/GONE", "x"))
	require.NoError(t, os.Remove(filepath.Join(root, "run", "GONE")))
	for _, name := range []string{"part-1", "part-2", "other"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, "run", tempName(name)), nil, 0o600))
	}
	count := 0
	for info, err := range dir.List(t.Context(), "") {
		require.NoError(t, err)
		require.Contains(t, []string{"run/part-1", "run/HELD"}, info.Key)
		count++
	}
	require.Equal(t, 2, count)

	removed, err := dir.Sweep(t.Context(), "run/part-", nil)
	require.NoError(t, err)
	require.Equal(t, 2, removed, "those of keys with that prefix")
	removed, err = dir.Sweep(t.Context(), "run/", nil)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
	entries, err := os.ReadDir(filepath.Join(root, "run"))
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	require.Equal(t, []string{"HELD", "HELD.lock", "part-1"}, names)
}

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
	require.False(t, Permanent(err), "another attempt can do it")
	require.NoDirExists(t, filepath.Join(root, "run"))
}

// TestSweepSparesHeldLock: only lock files that nobody holds or needs are removed.
func TestSweepSparesHeldLock(t *testing.T) {
	t.Parallel()
	dir, root := setupLocal(t)
	lock := filepath.Join(root, "CURRENT"+lockSuffix)
	require.NoError(t, dir.Claim(t.Context(), "CURRENT", "run"))
	require.NoError(t, dir.Guard(t.Context(), "CURRENT", "run", func(ctx context.Context) error {
		_, err := dir.Sweep(ctx, "", func(string) bool { return false })
		require.NoError(t, err)
		require.FileExists(t, lock)
		require.NoFileExists(t, filepath.Join(root, "CURRENT"))
		return nil
	}))
	_, err := dir.Sweep(t.Context(), "", nil)
	require.NoError(t, err)
	require.NoFileExists(t, lock)
}

// TestLockFile takes the lock past this process's own, as other processes do, while lock files
// are removed under them.
func TestLockFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.lock")
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				f, err := lockFile(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				if !mu.TryLock() {
					t.Error("two hold the lock")
				} else {
					mu.Unlock()
				}
				if runtime.GOOS != "windows" {
					_ = os.Remove(path) // as its holder may, when it is done
				}
				_ = f.Close()
				removeLock(path)
			}
		})
	}
	wg.Wait()
	held, err := lockFile(t.Context(), path)
	require.NoError(t, err)
	defer held.Close()
	require.False(t, removeLock(path))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lockFile(ctx, path)
	require.ErrorIs(t, err, context.Canceled)
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

func TestFileInTheWay(t *testing.T) {
	t.Parallel()
	dir, root := setupLocal(t)
	require.NoError(t, dir.Put(t.Context(), "file", nil))
	require.NoError(t, dir.Put(t.Context(), "a/b", nil))

	err := dir.Put(t.Context(), "file/x/y", nil)
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.True(t, Permanent(err))
	require.ErrorContains(t, err, "a file stands where a directory is needed")
	require.ErrorIs(t, dir.Claim(t.Context(), "file/x/y", ""), syscall.ENOTDIR)
	_, err = (&Access{}).Open(t.Context(), filepath.Join(root, "file"))
	require.ErrorIs(t, err, syscall.ENOTDIR)

	err = dir.Put(t.Context(), "a", nil)
	require.ErrorIs(t, err, syscall.EISDIR)
	require.True(t, Permanent(err))
	require.Len(t, listAll(t, dir), 2)
}

func listAll(t *testing.T, dir Dir) (found []Info) {
	t.Helper()
	for info, err := range dir.List(t.Context(), "") {
		require.NoError(t, err)
		found = append(found, info)
	}
	return found
}

func TestNotWritable(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	dir, err := (&Access{}).Open(t.Context(), "/proc/self/stint")
	require.NoError(t, err)
	_, err = dir.Create(t.Context(), "key")
	require.Error(t, err, "nobody can make a directory in /proc")
	require.True(t, Permanent(err), "%v", err)
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
	w := newLocalWriter(t.Context(), f, filepath.Join(t.TempDir(), "x"), "/out/x", writeOptions{})
	_, err = w.Write(make([]byte, 10))
	require.NoError(t, err, "buffered")
	err = w.Commit()
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.True(t, Permanent(err))
	require.EqualError(t, err, "writing /out/x: no space left on device (free some space there, then resume)")
	require.ErrorIs(t, w.Commit(), fs.ErrClosed)
}

func TestBulkWriter(t *testing.T) {
	t.Parallel()
	dir, root := setupLocal(t)
	w, err := dir.(creator).create(t.Context(), "out", writeOptions{bulk: true, size: 80 << 20})
	require.NoError(t, err)
	defer w.Abort()
	block := make([]byte, 1<<20)
	for i := range 80 {
		block[0] = byte(i)
		_, err := w.Write(block)
		require.NoError(t, err)
	}
	require.NoError(t, w.(syncer).sync())
	require.NoError(t, w.(syncer).sync())
	require.NoError(t, w.Commit())
	data, err := os.ReadFile(filepath.Join(root, "out"))
	require.NoError(t, err)
	require.Len(t, data, 80<<20)
	for i := range 80 {
		require.Equal(t, byte(i), data[i<<20])
	}
}

func TestPipeIsNoInput(t *testing.T) {
	t.Parallel()
	_, err := (&Access{}).OpenInput(t.Context(), os.DevNull, 0, -1)
	require.ErrorIs(t, err, fs.ErrInvalid)
	require.ErrorContains(t, err, "name the input -")
	_, err = (&Access{}).Expand(t.Context(), []string{os.DevNull})
	require.ErrorIs(t, err, fs.ErrInvalid)
}

func TestLinksInDir(t *testing.T) {
	t.Parallel()
	dir, root := setupLocal(t)
	require.NoError(t, dir.Put(t.Context(), "real/x", []byte("12345")))
	if err := os.Symlink(filepath.Join(root, "real", "x"), filepath.Join(root, "link")); err != nil {
		t.Skip("no symbolic links here")
	}
	require.NoError(t, os.Symlink(filepath.Join(root, "real"), filepath.Join(root, "tree")))
	require.NoError(t, os.Symlink(filepath.Join(root, "nowhere"), filepath.Join(root, "broken")))
	found := listAll(t, dir)
	require.Len(t, found, 2)
	require.Equal(t, "link", found[0].Key)
	require.EqualValues(t, 5, found[0].Size, "of what it leads to")
	require.NoError(t, dir.Put(t.Context(), "link", []byte("new")))
	data, err := dir.Get(t.Context(), "real/x")
	require.NoError(t, err)
	require.Equal(t, "12345", string(data), "a put replaces the link, not what it leads to")
}
