package job

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPermanentErrors(t *testing.T) {
	t.Parallel()
	kinds := PermanentErrors()
	require.ElementsMatch(t, []string{
		ErrorInvalid, ErrorInput, ErrorChanged, ErrorOutput, ErrorFenced, ErrorBooks, ErrorCorrupt, ErrorOrphaned, ErrorNoHook,
	}, kinds)
	kinds[0] = "changed"
	require.Equal(t, ErrorInvalid, PermanentErrors()[0], "callers get their own list")
}
