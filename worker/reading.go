package worker

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/frames"
)

// reading is how a program's frames are read: by one goroutine at a time, which has the turn. That
// is the program's own goroutine, or, while calls come one upon the other, each caller until it has
// its answer. It spares a call two changes of goroutines, which is most of what a small one costs.
type reading struct {
	turn     sync.Mutex
	frames   *frames.Reader // of whoever has the turn, like what follows
	frame    frames.Results // the last one of its type, for its memory
	answered bool           // a call has come to its end
	stop     error          // why nothing more is read

	lends    bool          // callers may have the turn
	turns    atomic.Int64  // that callers have had
	recalled chan struct{} // the program's own goroutine should have the turn
}

// lent is how long the program's own goroutine leaves the frames alone before it looks whether they
// are still read by callers. A frame between calls may so be noticed twice as late, and so may it
// that a call which takes longer than this should end.
const lent = 10 * time.Millisecond

// startReading prepares it. The turn can be taken away from a caller where pipes have deadlines.
func (p *program) startReading() {
	p.sent = newCounted(p.pipes.stdout)
	p.frames, p.recalled = frames.NewReader(p.sent, frames.MaxFrame), make(chan struct{}, 1)
	p.lends = p.host.options.Concurrency == 1 && p.pipes.stdout.SetDeadline(time.Time{}) == nil
}

// read deals with the program's frames until its standard output ends.
func (p *program) read() {
	for {
		p.takeTurn()
		if p.stop == nil {
			p.stop = p.readUntil(func() bool { return p.answered && p.lends })
		}
		err := p.stop
		p.turn.Unlock()
		if err != nil {
			p.stopReading(err)
			return
		}
		p.lend()
	}
}

// takeTurn takes the turn away from a caller, if one has it.
func (p *program) takeTurn() {
	if p.turn.TryLock() {
		return
	}
	_ = p.pipes.stdout.SetDeadline(time.Now()) // it has deadlines, or would not be lent
	p.turn.Lock()
	_ = p.pipes.stdout.SetDeadline(time.Time{})
	if p.over() {
		p.pipes.hurry() // its deadline may be the one that has gone
	}
}

// lend leaves the frames to callers, for as long as calls come one upon the other.
func (p *program) lend() {
	ticks := time.NewTicker(lent)
	defer ticks.Stop()
	for before := p.turns.Load(); ; {
		select {
		case <-ticks.C:
		case <-p.recalled:
			return
		case <-p.exited:
			return
		}
		now := p.turns.Load()
		if now == before {
			return // there is no call, or one that takes its time
		}
		before = now
	}
}

// readAnswer has the caller read frames until its call has ended. It returns false where the
// program's own goroutine does.
func (p *program) readAnswer(c *pending) bool {
	if !p.lends || !p.turn.TryLock() {
		return false
	}
	defer p.turn.Unlock()
	p.turns.Add(1)
	if p.stop != nil || p.hasEnded(c) {
		return p.stop == nil
	}
	err := p.readUntil(func() bool { return c.ended })
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		p.stop = err
		p.recalled <- struct{}{} // there is room: nobody reads after this
	}
	return err == nil
}

// readUntil deals with frames, one at least, until there have been enough. Who calls it has the turn.
func (p *program) readUntil(enough func() bool) error {
	for p.answered = false; ; {
		line, err := p.frames.Next()
		if err != nil {
			return err
		}
		err = p.handle(line)
		p.handled.Store(p.frames.Taken())
		if err != nil || enough() {
			return err
		}
	}
}

// stopReading deals with the end of the program's frames.
func (p *program) stopReading(err error) {
	if errors.Is(err, io.EOF) {
		select {
		case <-p.exited:
		case <-time.After(closedLimit):
			p.broken(errors.New("it closed its standard output"))
		}
		return
	}
	if !p.over() { // what a dying program has left unfinished is no fault
		p.broken(err)
	}
	_, _ = io.Copy(io.Discard, p.pipes.stdout) // ends with the process
}
