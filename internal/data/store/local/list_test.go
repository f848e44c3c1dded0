package local

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store/object"
)

// TestCrashLeftovers leaves the files that a killed process leaves.
func TestCrashLeftovers(t *testing.T) {
	t.Parallel()
	dir, root := setupLocal(t)
	require.NoError(t, dir.Put(t.Context(), "run/part-1", []byte("x")))
	require.NoError(t, dir.Claim(t.Context(), "run/HELD", "x", nil))
	require.NoError(t, dir.Claim(t.Context(), "run/GONE", "x", nil))
	require.NoError(t, os.Remove(filepath.Join(root, "run", "GONE")))
	for _, name := range []string{"part-1", "part-2", "other"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, "run", object.TempName(name)), nil, 0o600))
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

// TestSweepSparesHeldLock: only lock files that nobody holds or needs are removed.
func TestSweepSparesHeldLock(t *testing.T) {
	t.Parallel()
	dir, root := setupLocal(t)
	lock := filepath.Join(root, "CURRENT"+object.LockSuffix)
	require.NoError(t, dir.Claim(t.Context(), "CURRENT", "run", nil))
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

func listAll(t *testing.T, dir object.Dir) (found []object.Info) {
	t.Helper()
	for info, err := range dir.List(t.Context(), "") {
		require.NoError(t, err)
		found = append(found, info)
	}
	return found
}
