package starter

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Signals within a second of the first one are that one; the next is the second.
func TestD28_TwoSignalsWithinASecondAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		p := &Program{Signals: signals}
		ended := make(chan struct{})
		second := make(chan bool, 1)
		go func() { second <- p.secondSignal(ended) }()
		for range 3 {
			time.Sleep(onceMore / 4)
			signals <- syscall.SIGTERM
		}
		synctest.Wait()
		require.Empty(t, second)
		time.Sleep(onceMore / 4)
		signals <- syscall.SIGTERM
		require.True(t, <-second)

		go func() { second <- p.secondSignal(ended) }()
		signals <- syscall.SIGTERM
		close(ended)
		require.False(t, <-second)
	})
}
