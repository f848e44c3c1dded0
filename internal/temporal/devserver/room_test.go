package devserver

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/base/disk"
)

// A full disk is an error at the start, which names the disk.
func TestRoom_AtTheStart(t *testing.T) {
	t.Parallel()
	free := func(n int64) func(string) (disk.Space, error) {
		return func(string) (disk.Space, error) { return disk.Space{Free: n, At: "/data"}, nil }
	}
	require.NoError(t, checkRoom("/data/x/.stint", free(leastRoom)))
	err := checkRoom("/data/x/.stint", free(leastRoom-1<<20))
	var full *FullError
	require.ErrorAs(t, err, &full)
	require.EqualError(t, err, "the disk of /data/x/.stint, mounted at /data, has 31.0 MiB free and at least 32.0 MiB are needed: "+
		"free some space there, or use another state directory")
}

// A limit of the length of files is an error at the start, which names it.
func TestR29_ALimitOfTheLengthOfFiles(t *testing.T) {
	t.Parallel()
	require.NoError(t, checkFileLimit(leastFile))
	require.NoError(t, checkFileLimit(fileLimit()))
	require.EqualError(t, checkFileLimit(100<<10), "files of this process may have at most 102,400 bytes (ulimit -f), and the database may need 16.0 MiB: raise that limit")
}

// A disk that gets full is reported once, and so is that it has room again.
func TestRoom_WhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Int64
		var notes []string
		noted := make(chan string, 10)
		quit := make(chan struct{})
		go watchRoom("/data/.stint", func(string) (disk.Space, error) { return disk.Space{Free: free.Load(), At: "/data"}, nil },
			func(text string) { noted <- text }, quit)
		becomes := func(n int64, want int) {
			t.Helper()
			free.Store(n)
			time.Sleep(10 * roomEvery)
			synctest.Wait()
			for len(noted) > 0 {
				notes = append(notes, <-noted)
			}
			require.Len(t, notes, want)
		}
		becomes(1<<30, 0)
		becomes(lowRoom, 0)
		becomes(1<<20, 1)
		require.Contains(t, notes[0], "the disk of /data/.stint, mounted at /data, is full (1.0 MiB free)")
		becomes(lowRoom+1, 1)
		becomes(leastRoom, 2)
		require.Contains(t, notes[1], "has room again")
		becomes(0, 3)
		close(quit)
	})
}

// A start that fails because the disk filled up meanwhile says so; another failure keeps its own error.
func TestRoom_DuringTheStart(t *testing.T) {
	t.Parallel()
	cause := errors.New("database or disk is full")
	free := func(n int64) func(string) (disk.Space, error) {
		return func(string) (disk.Space, error) { return disk.Space{Free: n, At: "/data"}, nil }
	}
	var full *FullError
	require.ErrorAs(t, fullOr("/data/x", free(lowRoom-1), cause), &full)
	require.Equal(t, cause, fullOr("/data/x", free(lowRoom), cause))
	require.Equal(t, cause, fullOr("", free(0), cause), "a server in memory has no disk")
}
