package activities

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// P1: which pools nobody serves is said within five seconds, and again when it is otherwise.
func TestServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		pollers := func(_ context.Context, pool string, _ int) (int, error) {
			if pool == "a" || pool == "b" && time.Since(began) > time.Minute {
				return 1, nil
			}
			return 0, nil
		}
		acts := New(Options{Pollers: pollers})
		defer acts.Close()
		ask := func(known ...string) []string {
			result, err := acts.Served(t.Context(), wire.ServedInput{Pools: []string{"a", "b", "c"}, Known: known})
			require.NoError(t, err)
			return result.Unserved
		}
		require.Equal(t, []string{"b", "c"}, ask())
		require.Less(t, time.Since(began), 5*time.Second)
		require.Equal(t, []string{"c"}, ask("b", "c"))
		require.Less(t, time.Since(began), time.Minute+5*time.Second)
		require.Equal(t, []string{"c"}, ask("c"))
		require.Greater(t, time.Since(began), time.Hour)
		result, err := acts.Served(t.Context(), wire.ServedInput{Pools: []string{"a", "b"}})
		require.NoError(t, err)
		require.Empty(t, result.Unserved)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = acts.Served(ctx, wire.ServedInput{Pools: []string{"c"}})
		require.ErrorIs(t, err, context.Canceled)
	})
	acts := New(Options{Pollers: func(context.Context, string, int) (int, error) { return 0, errors.New("no network") }})
	defer acts.Close()
	_, err := acts.Served(t.Context(), wire.ServedInput{Pools: []string{"c"}})
	require.ErrorContains(t, err, "looking for workers of pool c: no network")
}
