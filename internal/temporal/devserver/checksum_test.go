package devserver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBinaryNameIsStable(t *testing.T) {
	t.Parallel()
	name := binaryName()
	require.Len(t, name, 32)
	require.Equal(t, name, binaryName())
}
