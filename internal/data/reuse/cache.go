package reuse

import (
	"context"
	"sync"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// maxCached is how many indexes a worker holds.
const maxCached = 4

// Cache holds the lists of indexes that were read lately. The zero value is ready to use, by several goroutines at once.
type Cache struct {
	mu      sync.Mutex
	indexes map[string]*Index
}

// Open is [Open], from memory if the index has been opened before.
func (c *Cache) Open(ctx context.Context, dir store.Dir, of *wire.ReuseIndex) (*Index, error) {
	key := of.Location + "\x00" + of.Index
	c.mu.Lock()
	x, ok := c.indexes[key]
	c.mu.Unlock()
	if ok {
		return x, nil
	}
	x, err := Open(ctx, dir, of)
	if err != nil || x == nil { // one that is lost may be there again
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.indexes == nil || len(c.indexes) >= maxCached {
		c.indexes = map[string]*Index{}
	}
	c.indexes[key] = x
	return x, nil
}
