//go:build !linux

package worker

import "sync/atomic"

// counted reads a pipe, and can tell how much of it its reader was given. How much waits in the pipe
// cannot be told on this system.
type counted struct {
	stream
	taken   atomic.Int64
	waiting atomic.Bool // the reader, for more
}

func newCounted(s stream) *counted { return &counted{stream: s} }

// Read implements io.Reader.
func (c *counted) Read(b []byte) (int, error) {
	c.waiting.Store(true)
	n, err := c.stream.Read(b)
	c.taken.Add(int64(n))
	c.waiting.Store(false)
	return n, err
}

func (c *counted) written() int64 { return c.taken.Load() }
func (c *counted) drained() bool  { return c.waiting.Load() }
