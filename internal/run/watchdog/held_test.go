package watchdog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// T19: held timers are visible, with worker, scope and deadline, until they are released.
func TestHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{})
		w.Start()
		defer w.Stop()
		now := time.Now()
		require.Empty(t, w.Timers())
		immortal := ReaperFunc(func(context.Context, Expiry) error { return errors.New("operation not permitted") })
		first, second := w.Client("first", immortal), w.Client("second", nil)
		require.NoError(t, first.Acquire("load", time.Hour))
		require.NoError(t, second.Acquire("fetch", time.Minute))
		require.NoError(t, first.Acquire("late", time.Second))
		load := Held{Worker: "first", Scope: "load", After: time.Hour, Deadline: now.Add(time.Hour)}
		late := Held{Worker: "first", Scope: "late", After: time.Second, Deadline: now.Add(time.Second)}
		fetch := Held{Worker: "second", Scope: "fetch", After: time.Minute, Deadline: now.Add(time.Minute)}
		require.Equal(t, []Held{late, load}, first.Timers())
		require.Equal(t, []Held{late, fetch, load}, w.Timers())

		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []Held{late, load}, first.Timers(), "an expired one is held until its worker is gone")
		first.Release("load")
		second.Close()
		require.Equal(t, []Held{late}, w.Timers())
	})
}
