package callstest

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/calls"
)

// Filter is a handler that runs Do as a worker runs a program: over the lines of a call, through pipes.
type Filter struct {
	Do    func(in io.Reader, out io.Writer) error
	Size  calls.CallSize // as of Handler
	Whole bool           // one call takes a whole batch

	whole atomic.Int64
}

// Traits implements calls.Handler.
func (*Filter) Traits() calls.Traits { return calls.Traits{Form: calls.Lines} }

// CallSize implements calls.Handler.
func (f *Filter) CallSize() calls.CallSize { return (&Handler{Size: f.Size}).CallSize() }

// Streams implements calls.Streamer.
func (f *Filter) Streams(int64, time.Duration) bool { return f.Whole }

// Wholes returns how many calls so far had a whole batch.
func (f *Filter) Wholes() int64 { return f.whole.Load() }

// Call implements calls.Handler.
func (f *Filter) Call(c *calls.Call) error {
	if c.Items == nil {
		f.whole.Add(1)
	}
	var scratch []byte
	lines := c.Lines(&scratch)
	ctx := c.Begin()
	defer c.End()
	in, feed := io.Pipe()
	answer, out := io.Pipe()
	var running sync.WaitGroup
	running.Go(func() {
		_ = trap.Run("feeding a filter", func() { lines.Feed(ctx, feed) }) // the answer shows what it has got
		_ = feed.Close()
	})
	var exit error
	running.Go(func() {
		exit = trap.Call("filtering", func() error { return f.Do(in, out) })
		_ = in.Close()
		_ = out.Close()
	})
	err := lines.Take(answer)
	_ = answer.Close() // a filter that writes on gets an error
	running.Wait()
	var slow *calls.SlowDownError
	switch {
	case err != nil:
		return err
	case errors.As(exit, &slow):
		c.SlowDown(slow.After)
		return nil
	case exit != nil:
		return calls.CauseOf(ctx, exit)
	}
	return lines.Accept()
}
