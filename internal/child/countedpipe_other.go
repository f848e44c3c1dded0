//go:build !linux

package child

import "sync/atomic"

// CountedPipe reads a pipe, and knows how much of it its reader was given. How much waits in the pipe
// is not known on this system.
type CountedPipe struct {
	stream
	taken   atomic.Int64
	waiting atomic.Bool // the reader, for more
}

func NewCountedPipe(s stream) *CountedPipe { return &CountedPipe{stream: s} }

// Read implements io.Reader.
func (c *CountedPipe) Read(b []byte) (int, error) {
	c.waiting.Store(true)
	n, err := c.stream.Read(b)
	c.taken.Add(int64(n))
	c.waiting.Store(false)
	return n, err
}

func (c *CountedPipe) Written() int64 { return c.taken.Load() }
func (c *CountedPipe) Drained() bool  { return c.waiting.Load() }
