package calls

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/stint-run/stint/job"
)

// Stream is the items of a call as lines, and the answer to them: what a filter gets and gives.
type Stream interface {
	// First returns the ordinal of the first item, and Len how many items there are.
	First() int64
	Len() int
	// Feed writes the lines to a filter's standard input until ctx is done. A filter need not read all of them.
	Feed(ctx context.Context, in io.Writer)
	// Take reads the filter's answer, to its end or to the deadline.
	Take(out io.Reader) error
	// Accept makes the answer the items' outcomes, or returns a length fault.
	Accept() error
}

// Lines returns the call's items as lines. If they do not lie in memory so, they are put together in scratch.
func (c *Call) Lines(scratch *[]byte) Stream {
	if c.stream != nil {
		return c.stream
	}
	return &memoryLines{call: c, lines: c.lines(scratch)}
}

// memoryLines are those of a call whose items and answer lie in memory.
type memoryLines struct {
	call   *Call
	lines  []byte
	answer Unaccepted
}

func (l *memoryLines) Len() int { return len(l.call.Items) }

func (l *memoryLines) First() int64 {
	if len(l.call.Items) == 0 {
		return 0
	}
	return l.call.Items[0].Ordinal
}

func (l *memoryLines) Feed(_ context.Context, in io.Writer) {
	_, _ = in.Write(l.lines) // only its answer counts
}

func (l *memoryLines) Take(out io.Reader) (err error) {
	l.answer, err = l.call.ReadLines(out, len(l.lines))
	return err
}

func (l *memoryLines) Accept() error { return l.call.Answer.Accept(l.answer, l.Len()) }

// Streamer is a handler that can take all items of a batch in one call, as lines that nobody holds in memory.
type Streamer interface {
	Handler
	// Streams reports whether one call should have so many items: it is expected to take no longer than others do, and
	// to end long before the timeout; 0: there is none.
	Streams(items int64, timeout time.Duration) bool
}

// Stream has one call take a whole batch. It reports whether the answer is accepted. If not, and without an error, the
// call has come to nothing, and all its items are to be called as usual; ErrEnding means that the batch should end
// before.
func (c *Caller) Stream(lines Stream) (accepted bool, err error) {
	a := c.begin(nil, false)
	a.stream = lines
	c.beginSpan(a, lines.First(), lines.Len())
	err = c.Handler.Call(&a.Call)
	stats := CallStats{Job: c.Job, Stage: c.Stage, Took: time.Since(a.began)}
	defer func() { c.Observer.CallEnded(stats); a.endSpan(stats) }()
	c.Brake.ended()
	c.Lane.afterCall()
	slow := time.Duration(c.Lane.slowed.Load())
	stats.SlowDown, stats.Refused = c.Lane.braked.Load(), slow > 0
	if failure := c.Lane.watch.Failure(); failure != nil {
		stats.Cut = true
		return false, failure
	}
	unbegun, isUnbegun := errors.AsType[*UnbegunError](err)
	switch {
	case isUnbegun:
		c.Lane.watch.giveBack(unbegun)
		fallthrough
	case c.Lane.watch.over(), errors.Is(err, ErrEnded), errors.Is(err, ErrNoSlot):
		stats.Cut = true
		return false, ErrEnding
	case err == nil && slow > 0:
		stats.Cut = true
		if c.Lane.watch.Ending.Load() {
			return false, ErrEnding
		}
		return false, nil // a call as usual is asked again, and its items wait
	case err == nil:
		n := int64(lines.Len())
		stats.Items = lines.Len()
		c.Hope.succeeded()
		c.Totals.Add(job.Totals{Calls: 1, CallItems: n, CallMin: n, CallMax: n})
		c.Times.Add(stats.Took)
		c.Brake.answered(1)
		c.Place.Answered()
		return true, nil
	}
	fault := FaultOf(err)
	c.countFault(fault)
	c.Retries++
	stats.Fault = fault.Kind
	return false, nil
}
