package starter_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// chaosSeeds, as an environment variable, has the long tests run, so many times each: see `make chaos`.
const chaosSeeds = "STINT_CHAOS_SEEDS"

// chaotic runs what takes long, as often as is wanted, each time with a seed of its own. In an
// ordinary run of the tests it is skipped.
func chaotic(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	text := os.Getenv(chaosSeeds)
	if text == "" {
		t.Skipf("takes long: set %s to how often, or run make chaos", chaosSeeds)
	}
	rounds, err := strconv.Atoi(text)
	require.NoError(t, err, chaosSeeds)
	for round := range rounds {
		t.Run(fmt.Sprintf("round %d", round+1), func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}
