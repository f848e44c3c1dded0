package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/stint-run/stint/internal/backoff"
)

const (
	firstLockPoll = time.Millisecond
	maxLockPoll   = 25 * time.Millisecond
)

// lockFile makes the file at path if it is missing and waits for an exclusive lock on it, which
// excludes every other opening of the file, in this process too. Closing the file unlocks it. If
// somebody removes the file while it is locked, two cannot hold the lock: the locked file must
// still be the one at path.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		if err := waitLock(ctx, f); err != nil {
			_ = f.Close() // the error of the lock is returned
			return nil, err
		}
		same, err := isAt(f, path)
		if same {
			return f, nil
		}
		_ = f.Close() // never written to
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// waitLock asks again and again, because a blocking request could not be cancelled.
func waitLock(ctx context.Context, f *os.File) error {
	poll := firstLockPoll
	for {
		locked, err := tryLock(f)
		if locked || err != nil {
			return err
		}
		if !backoff.Wait(poll, ctx.Done()) {
			return ctx.Err()
		}
		poll = min(2*poll, maxLockPoll)
	}
}

// removeLock removes a lock file unless somebody holds it.
func removeLock(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if locked, err := tryLock(f); !locked || err != nil {
		return false
	}
	same, _ := isAt(f, path)
	return same && os.Remove(path) == nil
}

func isAt(f *os.File, path string) (bool, error) {
	there, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(there, opened), err
}
