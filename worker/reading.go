package worker

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/child"
	"github.com/stint-run/stint/internal/frames"
	"github.com/stint-run/stint/internal/wire"
)

// reading reads a program's frames: by one goroutine at a time, which has the turn. That is the
// program's own goroutine, or, while calls follow each other closely, each caller until it has its
// answer. It saves a call two changes of goroutines, which are most of the cost of a small one.
type reading struct {
	turn     sync.Mutex
	frames   *frames.Reader    // of the goroutine that has the turn, like the next three
	frame    wire.ResultsFrame // the last one of its type, to reuse its memory
	answered bool              // a call has ended
	stop     error             // why nothing more is read

	lends    bool          // callers may have the turn
	turns    atomic.Int64  // that callers have had
	recalled chan struct{} // the program's own goroutine should have the turn
}

// lent is how long the program's own goroutine leaves the frames alone before it checks whether
// callers still read them. So a frame between calls, or the request to end a call that takes longer than this, may be noticed
// up to two of these intervals late.
const lent = 10 * time.Millisecond

// startReading prepares the reading. The turn can be taken away from a caller if pipes have deadlines.
func (p *program) startReading() {
	p.sent = child.NewCountedPipe(p.pipes.Stdout)
	p.frames, p.recalled = frames.NewReader(p.sent, frames.MaxFrame), make(chan struct{}, 1)
	p.lends = p.host.options.Concurrency == 1 && p.pipes.Stdout.SetDeadline(time.Time{}) == nil
}

// read handles the program's frames until its standard output ends.
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
	_ = p.pipes.Stdout.SetDeadline(time.Now()) // it has deadlines, or it would not be lent
	p.turn.Lock()
	_ = p.pipes.Stdout.SetDeadline(time.Time{})
	if p.over() {
		p.pipes.Hurry() // it may be its deadline that was overwritten
	}
}

// lend leaves the frames to callers for as long as calls follow each other closely.
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
			return // there is no call, or a long one
		}
		before = now
	}
}

// readAnswer has the caller read frames until its call has ended. It returns false if the program's
// own goroutine reads them.
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

// readUntil handles frames, one at least, until enough reports true. The caller has the turn.
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

// stopReading handles the end of the program's frames.
func (p *program) stopReading(err error) {
	if errors.Is(err, io.EOF) {
		select {
		case <-p.exited:
		case <-time.After(closedLimit):
			p.broken(errors.New("it closed its standard output"))
		}
		return
	}
	if !p.over() { // a frame that a dying program has left unfinished is not a fault
		p.broken(err)
	}
	_, _ = io.Copy(io.Discard, p.pipes.Stdout) // ends with the process
}
