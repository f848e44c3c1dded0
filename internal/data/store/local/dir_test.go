package local

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store/object"
)

// everything is an Admission that allows every path.
type everything struct{}

func (everything) Existing(path string) (string, error) { return path, nil }
func (everything) Replaced(path string) (string, error) { return path, nil }
func (everything) Cleared(string) error                 { return nil }

func setupLocal(t *testing.T) (dir *Dir, root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "root")
	opened, err := OpenDir("here", root, everything{})
	require.NoError(t, err)
	return opened.(*Dir), root
}

func TestFileInTheWay(t *testing.T) {
	t.Parallel()
	dir, root := setupLocal(t)
	require.NoError(t, dir.Put(t.Context(), "file", nil))
	require.NoError(t, dir.Put(t.Context(), "a/b", nil))

	err := dir.Put(t.Context(), "file/x/y", nil)
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.True(t, object.Permanent(err))
	require.ErrorContains(t, err, "a file stands where a directory is needed")
	require.ErrorIs(t, dir.Claim(t.Context(), "file/x/y", "", nil), syscall.ENOTDIR)
	_, err = OpenDir("here", filepath.Join(root, "file"), everything{})
	require.ErrorIs(t, err, syscall.ENOTDIR)

	err = dir.Put(t.Context(), "a", nil)
	require.ErrorIs(t, err, syscall.EISDIR)
	require.True(t, object.Permanent(err))
	require.Len(t, listAll(t, dir), 2)
}
