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
			g.Go("something", func(one *Goroutine) { ran = one }, nil)
			synctest.Wait()
			return ran
		}
		require.NotSame(t, run(), run(), "nobody uses them")
		done, other := g.Use(), g.Use()
		first := run()
		require.Regexp(t, `^goroutine \d+$`, string(first.name))
		require.Same(t, first, run())

		g.Go("something", func(*Goroutine) { runtime.Goexit() }, nil)
		synctest.Wait()
		second := run()
		require.NotSame(t, first, second, "it was ended")
		var defect error
		g.Go("something", func(*Goroutine) { panic("no") }, func(err error) { defect = err })
		synctest.Wait()
		require.ErrorContains(t, defect, "a defect of stint, please report it: something: panic: no")
		require.Same(t, second, run())

		release := make(chan struct{})
		var busy sync.WaitGroup
		busy.Add(3)
		for range 3 {
			g.Go("something", func(*Goroutine) { busy.Done(); <-release }, nil)
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
