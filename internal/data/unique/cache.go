package unique

import (
	"context"
	"sync"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// Cache holds where the blocks of the list lie that was read last. The zero value is ready to use, by several goroutines
// at once.
type Cache struct {
	mu       sync.Mutex
	location string
	list     *List
}

// Open is [Open], from memory if it is the last one that was opened.
func (c *Cache) Open(ctx context.Context, dir store.Dir, of *wire.Twins) (*List, error) {
	c.mu.Lock()
	list, location := c.list, c.location
	c.mu.Unlock()
	if list != nil && location == dir.Location() && *list.of == *of {
		return list, nil
	}
	list, err := Open(ctx, dir, of)
	if err != nil || list == nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list, c.location = list, dir.Location()
	return list, nil
}
