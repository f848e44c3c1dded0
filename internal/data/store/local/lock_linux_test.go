package local

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// openings counts how often this process has a file open under its present name.
func openings(t *testing.T, path string) (count int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, entry := range entries {
		if target, err := os.Readlink(filepath.Join("/proc/self/fd", entry.Name())); err == nil && target == path {
			count++
		}
	}
	return count
}

// TestLockFileRemoved removes a lock file that somebody waits for, and has another take the lock
// of the new file: the first to wait must then wait for that one.
func TestLockFileRemoved(t *testing.T) {
	t.Parallel()
	path, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	path = filepath.Join(path, "x.lock")
	first, err := lockFile(t.Context(), path)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		f, err := lockFile(t.Context(), path)
		if err == nil {
			err = f.Close()
		}
		done <- err
	}()
	require.Eventually(t, func() bool { return openings(t, path) == 2 }, 10*time.Second, time.Millisecond, "it waits")
	require.NoError(t, os.Remove(path))
	second, err := lockFile(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool {
		select {
		case err := <-done:
			done <- fmt.Errorf("two hold the lock: %v", err)
			return true
		default:
			return openings(t, path) == 2
		}
	}, 10*time.Second, time.Millisecond, "it waits for the new file")
	require.Empty(t, done)
	require.NoError(t, second.Close())
	require.NoError(t, <-done)
}
