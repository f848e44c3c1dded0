package local

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store/object"
)

// An object gets longer in place; what a failed attempt has left behind its end is replaced, and one that is not as it
// was is written as a whole.
func TestD47_AppendToAnObject(t *testing.T) {
	t.Parallel()
	dir, _ := setupLocal(t)
	require.ErrorIs(t, dir.Append(t.Context(), "run/key", 0, []byte("a")), fs.ErrNotExist)
	require.NoError(t, object.Extend(t.Context(), dir, "run/key", []byte("one"), 0))
	require.NoError(t, object.Extend(t.Context(), dir, "run/key", []byte("onetwo"), 3))
	require.NoError(t, object.Extend(t.Context(), dir, "run/key", []byte("onetwothree"), 3), "an attempt that was repeated")
	data, err := dir.Get(t.Context(), "run/key")
	require.NoError(t, err)
	require.Equal(t, "onetwothree", string(data))

	require.NoError(t, dir.Delete(t.Context(), "run/key"))
	require.NoError(t, object.Extend(t.Context(), dir, "run/key", []byte("all of it"), 4))
	require.NoError(t, dir.Put(t.Context(), "run/key", []byte("cut")))
	require.ErrorIs(t, dir.Append(t.Context(), "run/key", 4, []byte("x")), fs.ErrNotExist)
	require.NoError(t, object.Extend(t.Context(), dir, "run/key", []byte("all of it"), 4))
	data, err = dir.Get(t.Context(), "run/key")
	require.NoError(t, err)
	require.Equal(t, "all of it", string(data))
}
