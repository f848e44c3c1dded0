package feedstore

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// maxReads bounds how many parts are read at a time.
const maxReads = 4

// cache keeps what has been read, what was used last. A value that several ask for is read once.
type cache[K comparable, V any] struct {
	most   int64
	sizeOf func(V) int64

	mu      sync.Mutex
	size    int64
	known   []cached[K, V] // the one used last is the last
	readers map[K]*reading[V]
}

type cached[K comparable, V any] struct {
	key   K
	value V
}

// reading is a value that is being read.
type reading[V any] struct {
	done  chan struct{} // closed when value and err are set
	value V
	err   error
}

func (c *cache[K, V]) init(most int64, sizeOf func(V) int64) {
	c.most, c.sizeOf, c.readers = most, sizeOf, map[K]*reading[V]{}
}

// get returns a value, which read reads if nobody has, or does. A reader that gives up leaves it to the others.
func (c *cache[K, V]) get(ctx context.Context, key K, read func() (V, error)) (none V, err error) {
	for {
		r, first := c.find(key)
		if first {
			r.value, r.err = read()
			c.keep(key, r)
			return r.value, r.err
		}
		select {
		case <-r.done:
			if r.err == nil || !errors.Is(r.err, context.Canceled) && !errors.Is(r.err, context.DeadlineExceeded) {
				return r.value, r.err
			}
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// find returns who reads a value, or has read it; first: the caller has to.
func (c *cache[K, V]) find(key K) (r *reading[V], first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range c.known {
		if k.key == key {
			c.known = append(slices.Delete(c.known, i, i+1), k)
			r = &reading[V]{value: k.value, done: make(chan struct{})}
			close(r.done)
			return r, false
		}
	}
	if r := c.readers[key]; r != nil {
		return r, false
	}
	r = &reading[V]{done: make(chan struct{})}
	c.readers[key] = r
	return r, true
}

// keep ends a reading, and keeps its value if there is room.
func (c *cache[K, V]) keep(key K, r *reading[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.readers, key)
	close(r.done)
	if r.err != nil || c.sizeOf(r.value) > c.most {
		return
	}
	c.known = append(c.known, cached[K, V]{key: key, value: r.value})
	c.size += c.sizeOf(r.value)
	for c.size > c.most {
		c.size -= c.sizeOf(c.known[0].value)
		c.known = slices.Delete(c.known, 0, 1)
	}
}

// inTurn calls fn as soon as one of the turns is free.
func inTurn[T any](ctx context.Context, turns chan struct{}, fn func() (T, error)) (none T, err error) {
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
		return fn()
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
