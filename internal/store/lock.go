package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

const (
	firstLockPoll = time.Millisecond
	maxLockPoll   = 25 * time.Millisecond
)

// bucketLocks exclude the Guards and Claims of this process in a bucket from each other, by
// location and key, across every Access.
var bucketLocks = namedLocks{locks: map[string]*namedLock{}}

type namedLocks struct {
	mu    sync.Mutex
	locks map[string]*namedLock
}

type namedLock struct {
	held  chan struct{} // holds one value while the lock is held
	users int           // those that hold it or wait for it
}

// lock waits for the lock of that name. The caller calls unlock once.
func (l *namedLocks) lock(ctx context.Context, name string) (unlock func(), err error) {
	l.mu.Lock()
	lock := l.locks[name]
	if lock == nil {
		lock = &namedLock{held: make(chan struct{}, 1)}
		l.locks[name] = lock
	}
	lock.users++
	l.mu.Unlock()
	select {
	case lock.held <- struct{}{}:
		return func() { <-lock.held; l.leave(name, lock) }, nil
	case <-ctx.Done():
		l.leave(name, lock)
		return nil, ctx.Err()
	}
}

func (l *namedLocks) leave(name string, lock *namedLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lock.users--; lock.users == 0 {
		delete(l.locks, name)
	}
}

// lockFile makes the file at path where it is missing and waits for an exclusive lock on it, which
// excludes every other opening of the file, in this process too. Closing the file unlocks it. Somebody who removed the file while it was locked cannot let two
// in: the file locked must still be the one at path.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		if err := waitLock(ctx, f); err != nil {
			_ = f.Close() // the error of the lock counts
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
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(poll):
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
