package meters

import (
	"testing"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stretchr/testify/require"
)

// Every kind of failure is counted under its own name.
func TestD39_AllKindsOfFailuresAreCounted(t *testing.T) {
	t.Parallel()
	j := (&Meters{}).Job("nightly")
	for _, kind := range limits.FailureKinds {
		require.NotNil(t, j.outcomes[kind.Name], kind.Name)
	}
}
