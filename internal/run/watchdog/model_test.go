package watchdog

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Random requests, held against a plain list of what must be held: which expire, and when.
func TestClient_AgainstModel(t *testing.T) {
	t.Parallel()
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { againstModel(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func againstModel(t *testing.T, random *rand.Rand) {
	w := start(t, Options{Interval: time.Millisecond})
	c := w.Client("w", nil) // without a reaper, expiries are reported and the timers end
	held := map[string]time.Time{}
	var expired int
	time.Sleep(time.Millisecond / 2) // requests fall between rounds
	for range 2000 {
		scope := fmt.Sprint(random.IntN(30))
		switch random.IntN(3) {
		case 0:
			after := time.Duration(random.IntN(50)) * time.Millisecond
			require.NoError(t, c.Acquire(scope, after))
			held[scope] = time.Now().Add(after)
		case 1:
			c.Release(scope)
			delete(held, scope)
		case 2:
			time.Sleep(time.Millisecond * time.Duration(random.IntN(3)))
			synctest.Wait()
			for scope, deadline := range held {
				if !deadline.After(w.LastRound()) {
					delete(held, scope)
					expired++
				}
			}
			require.Equal(t, len(held), c.Held())
			require.Len(t, w.reported(EventExpired), expired)
		}
	}
	require.Positive(t, expired)
}
