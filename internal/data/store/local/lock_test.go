package local

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLockFile takes the lock past this process's own, as other processes do, while lock files
// are removed under them.
func TestLockFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.lock")
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				f, err := lockFile(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				if !mu.TryLock() {
					t.Error("two hold the lock")
				} else {
					mu.Unlock()
				}
				if runtime.GOOS != "windows" {
					_ = os.Remove(path) // as its holder may, when it is done
				}
				_ = f.Close()
				removeLock(path)
			}
		})
	}
	wg.Wait()
	held, err := lockFile(t.Context(), path)
	require.NoError(t, err)
	defer held.Close()
	require.False(t, removeLock(path))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lockFile(ctx, path)
	require.ErrorIs(t, err, context.Canceled)
}
