package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
)

// drainLimit is how long what a dead process has written may take to be read.
const drainLimit = 5 * time.Second

// stream is our end of a pipe.
type stream interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
}

// Pipes are the three standard streams of a child, our ends and the child's.
type Pipes struct {
	Stdin          stream // we write
	Stdout, Stderr stream // we read
	childEnds      []*os.File
}

// NewPipes makes the pipes of a filter, which is fed and read in bulk.
func NewPipes(cmd *exec.Cmd) (*Pipes, error) { return makePipes(cmd, newBulkPipe) }

// NewFramePipes makes the pipes of a program, which answers at once.
func NewFramePipes(cmd *exec.Cmd) (*Pipes, error) { return makePipes(cmd, osPipe) }

func makePipes(cmd *exec.Cmd, data func(toChild bool) (stream, *os.File, error)) (*Pipes, error) {
	p := &Pipes{}
	in, inErr := p.open(&p.Stdin, func() (stream, *os.File, error) { return data(true) })
	out, outErr := p.open(&p.Stdout, func() (stream, *os.File, error) { return data(false) })
	errs, errsErr := p.open(&p.Stderr, func() (stream, *os.File, error) { return osPipe(false) })
	if err := errors.Join(inErr, outErr, errsErr); err != nil {
		p.Close()
		p.CloseChildEnds()
		return nil, fmt.Errorf("making pipes: %w", err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
	return p, nil
}

// open keeps both ends of a new pipe and returns the child's.
func (p *Pipes) open(ours *stream, make func() (stream, *os.File, error)) (*os.File, error) {
	end, childs, err := make()
	if err != nil {
		return nil, err
	}
	*ours = end
	p.childEnds = append(p.childEnds, childs)
	return childs, nil
}

// osPipe makes a pipe to or from a child.
func osPipe(toChild bool) (ours stream, childs *os.File, err error) {
	r, w, err := os.Pipe()
	if toChild {
		return w, r, err
	}
	return r, w, err
}

func (p *Pipes) CloseChildEnds() {
	for _, f := range p.childEnds {
		_ = f.Close() // the child has its own
	}
	p.childEnds = nil
}

// Hurry bounds what is left to be done once the child has ended: its group is dead, but a process
// that left the group may hold the pipes open.
func (p *Pipes) Hurry() {
	deadline := time.Now().Add(drainLimit)
	_ = errors.Join(p.Stdin.SetDeadline(time.Now()), p.Stdout.SetDeadline(deadline), p.Stderr.SetDeadline(deadline)) // pipes have deadlines
}

func (p *Pipes) Close() {
	for _, f := range []stream{p.Stdin, p.Stdout, p.Stderr} {
		if f != nil {
			_ = f.Close() // nothing is buffered
		}
	}
}

// MaxOutbox is how many frames may wait for a program that does not read: more than it can have
// timers, whose acquisition is answered by a frame each.
const MaxOutbox = 20_000

// Outbox writes frames one after the other. Whoever finds it at rest writes, for all who come
// meanwhile: so a call goes out without a change of goroutines. What the pipe takes is written at
// once. Who writes a call's frame can wait for the rest, if something ends the wait when the call's time
// is over; the reader of the program's frames, which must never wait for the program to read, hands the
// rest over to another goroutine.
type Outbox struct {
	W io.Writer
	// Defect is called, in another goroutine, if that has panicked while it wrote.
	Defect func(error)
	// AtOnce writes what can be written without waiting, and returns how many bytes that is.
	AtOnce func(frame []byte) int

	mu      sync.Mutex
	waiting [][]byte
	busy    bool
	closed  bool
	writing sync.WaitGroup
}

func writeNothing([]byte) int { return 0 }

// Write writes the frame, and returns true once it is written or cannot be: then the frame is the
// caller's again. It returns false, at once, if another goroutine is writing and takes it over.
//
// Whatever has to wait for the program to read happens in slow, which is called with it, at most once,
// and which must be able to end the program. Errors of the pipe are not reported: its program has ended.
func (o *Outbox) Write(frame []byte, slow func(write func())) bool {
	o.mu.Lock()
	switch {
	case o.closed:
		o.mu.Unlock()
		return true
	case o.busy:
		o.waiting = append(o.waiting, frame)
		o.mu.Unlock()
		return false
	}
	o.busy = true
	o.writing.Add(1)
	o.mu.Unlock()
	rest := frame[o.AtOnce(frame):]
	if len(rest) == 0 && o.rested() {
		o.writing.Done()
		return true
	}
	slow(func() {
		o.put(rest)
		o.flush()
	})
	return true
}

// rested ends the turn of who writes, unless there is more to write.
func (o *Outbox) rested() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy = len(o.waiting) > 0
	return !o.busy
}

// Post has the frame written and never waits. It returns false if too many wait: the frame is
// then not sent.
func (o *Outbox) Post(frame []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return true
	case len(o.waiting) >= MaxOutbox:
		return false
	case o.busy:
		o.waiting = append(o.waiting, frame)
		return true
	}
	if frame = frame[o.AtOnce(frame):]; len(frame) > 0 {
		o.busy = true
		o.waiting = append(o.waiting, frame)
		o.writing.Add(1)
		trap.Watched("writing frames", o.defect, o.flush)
	}
	return true
}

func (o *Outbox) flush() {
	defer o.writing.Done()
	for {
		o.mu.Lock()
		frames := o.waiting
		o.waiting = nil
		if len(frames) == 0 {
			o.busy = false
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		for _, frame := range frames {
			o.put(frame)
		}
	}
}

func (o *Outbox) put(frame []byte) {
	if len(frame) == 0 {
		return
	}
	if _, err := o.W.Write(frame); err != nil {
		o.fail()
	}
}

// defect ends the outbox after a panic.
func (o *Outbox) defect(err error) {
	o.fail()
	if o.Defect != nil {
		o.Defect(err)
	}
}

// fail drops what waits.
func (o *Outbox) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting, o.closed = nil, true
}

// Close waits for the end of what is being written. The program has ended: nothing blocks.
func (o *Outbox) Close() {
	o.fail()
	o.writing.Wait()
}
