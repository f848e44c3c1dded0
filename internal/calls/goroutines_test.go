package calls

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Goroutines are used again while somebody uses them, and none stays afterwards.
func TestGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // which fails if one stays
		var g Goroutines
		run := func() (ran *Goroutine) {
			g.Go(func(one *Goroutine) { ran = one })
			synctest.Wait()
			return ran
		}
		require.NotSame(t, run(), run(), "nobody uses them")
		done, other := g.Use(), g.Use()
		first := run()
		require.Regexp(t, `^goroutine \d+$`, string(first.name))
		require.Same(t, first, run())

		g.Go(func(*Goroutine) { runtime.Goexit() })
		synctest.Wait()
		require.NotSame(t, first, run(), "it was ended")

		release := make(chan struct{})
		var busy sync.WaitGroup
		busy.Add(3)
		for range 3 {
			g.Go(func(*Goroutine) { busy.Done(); <-release })
		}
		busy.Wait()
		done()
		done()
		synctest.Wait()
		require.Equal(t, 1, g.users)
		other()
		close(release) // late ones end, too
	})
}
