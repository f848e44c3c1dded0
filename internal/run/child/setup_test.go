package child

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/guard"
	"go.uber.org/goleak"
)

// asHelper, in the environment, makes the test binary one of these processes.
const asHelper = "STINT_TEST_CHILD_HELPER"

var helpers = map[string]func(){}

func TestMain(m *testing.M) {
	if name := os.Getenv(asHelper); name != "" {
		helpers[name]()
		return
	}
	guard.Main()
	goleak.VerifyTestMain(m)
}

// seeded returns a source of randomness whose seed the test's log names.
func seeded(t *testing.T, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// within waits until a condition holds; it reports false if that takes a minute.
func within(holds func() bool) bool {
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}
