package bucket

import (
	"context"
	"sync"
)

// locks exclude the Guards and Claims of this process in a bucket from each other, by
// location and key, across every Access.
var locks = namedLocks{locks: map[string]*namedLock{}}

type namedLocks struct {
	mu    sync.Mutex
	locks map[string]*namedLock
}

type namedLock struct {
	held  chan struct{} // holds one value while the lock is held
	users int           // how many hold it or wait for it
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
