package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
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
