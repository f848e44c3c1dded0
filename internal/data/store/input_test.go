package store

import (
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPipeIsNoInput(t *testing.T) {
	t.Parallel()
	_, err := (&Access{}).OpenInput(t.Context(), os.DevNull, 0, -1)
	require.ErrorIs(t, err, fs.ErrInvalid)
	require.ErrorContains(t, err, "name the input -")
	_, err = expandAll(t, &Access{}, []string{os.DevNull})
	require.ErrorIs(t, err, fs.ErrInvalid)
}

// expandAll collects the inputs up to the first error.
func expandAll(t *testing.T, a *Access, args []string) (found []Input, err error) {
	t.Helper()
	for input, err := range a.Expand(t.Context(), args) {
		if err != nil {
			return nil, err
		}
		found = append(found, input)
	}
	return found, nil
}
