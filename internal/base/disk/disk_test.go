package disk

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	space, err := Of(dir)
	require.NoError(t, err)
	require.Positive(t, space.Free)
	resolved, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(resolved, space.At), "%s lies on %s", resolved, space.At)
	missing, err := Of(filepath.Join(dir, "not", "there"))
	require.NoError(t, err)
	require.Equal(t, space.At, missing.At)
}
