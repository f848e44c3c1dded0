package devserver

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHolderDescribesTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := time.Now()
	s := setup(t, Options{Dir: dir, UIPort: AnyPort, Namespace: "photos"})

	holder, err := Holder(dir)
	require.NoError(t, err)
	require.NotNil(t, holder)
	require.Equal(t, os.Getpid(), holder.PID)
	require.Equal(t, s.Address(), holder.Address)
	require.Equal(t, s.UIURL(), holder.UI)
	require.Equal(t, "photos", holder.Namespace)
	require.NotEmpty(t, holder.Command)
	require.WithinRange(t, holder.Started, before.Add(-time.Second), time.Now().Add(time.Second))

	_, err = Start(t.Context(), Options{Dir: dir, Logger: silent})
	require.ErrorAs(t, err, new(*HeldError), "one process cannot hold a directory twice either")
	requireHeld(t, dir)
}

func requireHeld(t *testing.T, dir string) {
	t.Helper()
	holder, err := Holder(dir)
	require.NoError(t, err)
	require.NotNil(t, holder)
}

func TestHeldByAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address, process := child(t, dir)
	_, err := Start(t.Context(), Options{Dir: dir, Logger: silent})
	var held *HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, dir, held.Dir)
	require.Equal(t, process.Process.Pid, held.PID)
	require.Equal(t, address, held.Address)
	require.False(t, held.Since.IsZero())
	require.ErrorContains(t, err, "connect to "+address)
}

// A process that was killed keeps its lock until it has ended, which takes long where much else runs: whoever comes
// waits for that.
func TestHeldByADyingProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), lockFile)
	held, err := os.Create(path)
	require.NoError(t, err)
	taken, err := tryLock(held, exclusive)
	require.NoError(t, err)
	require.True(t, taken)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()

	taken, err = lockPatiently(f, func() bool { return false })
	require.NoError(t, err)
	require.False(t, taken, "its holder lives")
	const often = 2 * int(lockPatience/lockRetry) // so often it is asked in no less than twice the patience for a living one
	asked := 0
	taken, err = lockPatiently(f, func() bool {
		if asked++; asked == often {
			held.Close()
		}
		return true
	})
	require.NoError(t, err)
	require.True(t, taken)
	require.Equal(t, often, asked)
}

func TestHolderOfNothing(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{
		"missing directory": filepath.Join(t.TempDir(), "missing"),
		"empty directory":   t.TempDir(),
	} {
		holder, err := Holder(dir)
		require.NoError(t, err, name)
		require.Nil(t, holder, name)
	}
}

// A record without a lock is what a killed process leaves.
func TestHolderIgnoresRecordsOfTheDead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := lockDir(dir, "default", "")
	require.NoError(t, err)
	require.NoError(t, l.announce("127.0.0.1:1", ""))
	require.NoError(t, l.file.Close())
	require.FileExists(t, filepath.Join(dir, holderFile))

	holder, err := Holder(dir)
	require.NoError(t, err)
	require.Nil(t, holder)
}

// For a moment a directory is taken and nothing says by whom.
func TestHeldWithoutRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := lockDir(dir, "default", "")
	require.NoError(t, err)
	defer l.release()
	require.NoError(t, os.Remove(filepath.Join(dir, holderFile)))

	_, err = lockDir(dir, "default", "")
	require.ErrorAs(t, err, new(*HeldError))
	require.ErrorContains(t, err, "still starting")
}

// Looking does not get in the way of taking.
func TestLockIsTakenAmongLookers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var done atomic.Bool
	var lookers sync.WaitGroup
	for range 4 {
		lookers.Go(func() {
			for !done.Load() {
				_, _ = Holder(dir)
			}
		})
	}
	defer lookers.Wait()
	defer done.Store(true)
	for range 500 {
		l, err := lockDir(dir, "default", "")
		require.NoError(t, err)
		requireHeld(t, dir)
		l.release()
	}
}

func TestHeldErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 20, 8, 30, 0, 0, time.Local)
	for want, err := range map[string]*HeldError{
		"state directory .stint is in use by process 12 since 2026-11-20 08:30:00: connect to 127.0.0.1:7233, or stop process 12": {
			Dir: ".stint", PID: 12, Address: "127.0.0.1:7233", Since: since,
		},
		"state directory .stint is in use by process 12 since 2026-11-20 08:30:00, which is still starting: try again, or stop process 12": {
			Dir: ".stint", PID: 12, Since: since,
		},
		"state directory .stint is in use by another process, which is still starting: try again, or stop that process": {
			Dir: ".stint",
		},
	} {
		require.EqualError(t, err, want)
	}
}
