package feedstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/stint-run/stint/job"
)

// maxReads bounds how many parts are read at a time.
const maxReads = 4

// cache keeps parts that have been read, those used last. A part that several ask for is read once.
type cache struct {
	most  int64
	reads chan struct{} // one for each read under way

	mu     sync.Mutex
	size   int64
	known  []*cached // the one used last is the last
	reader map[job.FeedPart]*reading
}

type cached struct {
	at   job.FeedPart
	part *part
}

// reading is a part that is being read.
type reading struct {
	done chan struct{} // closed when part and err are set
	part *part
	err  error
}

func (c *cache) init(most int64) {
	c.most, c.reads, c.reader = most, make(chan struct{}, maxReads), map[job.FeedPart]*reading{}
}

// whole is the most bytes of results of a part that are kept.
func (c *cache) whole() int64 { return c.most / maxReads }

// get returns a part, which read reads if nobody has, or does. A reader that gives up leaves the part to the others.
func (c *cache) get(ctx context.Context, at job.FeedPart, read func() (*part, error)) (*part, error) {
	for {
		p, r, first := c.find(at)
		switch {
		case p != nil:
			return p, nil
		case first:
			r.part, r.err = c.read(ctx, read)
			c.keep(at, r)
			return r.part, r.err
		}
		select {
		case <-r.done:
			if r.err == nil || !errors.Is(r.err, context.Canceled) && !errors.Is(r.err, context.DeadlineExceeded) {
				return r.part, r.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// find returns a part, or who reads it; first: the caller has to.
func (c *cache) find(at job.FeedPart) (p *part, r *reading, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range c.known {
		if k.at == at {
			c.known = append(slices.Delete(c.known, i, i+1), k)
			return k.part, nil, false
		}
	}
	if r := c.reader[at]; r != nil {
		return nil, r, false
	}
	r = &reading{done: make(chan struct{})}
	c.reader[at] = r
	return nil, r, true
}

// keep ends a reading, and keeps its part if there is room.
func (c *cache) keep(at job.FeedPart, r *reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reader, at)
	close(r.done)
	if r.err != nil || r.part.size > c.most {
		return
	}
	c.known = append(c.known, &cached{at: at, part: r.part})
	c.size += r.part.size
	for c.size > c.most {
		c.size -= c.known[0].part.size
		c.known = slices.Delete(c.known, 0, 1)
	}
}

// read calls read when there is a place for it.
func (c *cache) read(ctx context.Context, read func() (*part, error)) (*part, error) {
	return placed(ctx, c.reads, read)
}

// slow is the same for a piece of a part.
func (c *cache) slow(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	return placed(ctx, c.reads, read)
}

func placed[T any](ctx context.Context, places chan struct{}, fn func() (T, error)) (none T, err error) {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
		return fn()
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
