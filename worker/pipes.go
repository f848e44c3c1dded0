package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// stream is our end of a pipe.
type stream interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
}

// pipes are the three standard streams of a child, our ends and the child's.
type pipes struct {
	stdin          stream // we write
	stdout, stderr stream // we read
	childEnds      []*os.File
}

// newPipes makes the pipes of a filter, which is fed and read in bulk.
func newPipes(cmd *exec.Cmd) (*pipes, error) { return makePipes(cmd, newBulkPipe) }

// newFramePipes makes the pipes of a program, which answers at once.
func newFramePipes(cmd *exec.Cmd) (*pipes, error) { return makePipes(cmd, osPipe) }

func makePipes(cmd *exec.Cmd, data func(toChild bool) (stream, *os.File, error)) (*pipes, error) {
	p := &pipes{}
	in, inErr := p.open(&p.stdin, func() (stream, *os.File, error) { return data(true) })
	out, outErr := p.open(&p.stdout, func() (stream, *os.File, error) { return data(false) })
	errs, errsErr := p.open(&p.stderr, func() (stream, *os.File, error) { return osPipe(false) })
	if err := errors.Join(inErr, outErr, errsErr); err != nil {
		p.close()
		p.closeChildEnds()
		return nil, fmt.Errorf("making pipes: %w", err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
	return p, nil
}

// open keeps both ends of a new pipe and returns the child's.
func (p *pipes) open(ours *stream, make func() (stream, *os.File, error)) (*os.File, error) {
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

func (p *pipes) closeChildEnds() {
	for _, f := range p.childEnds {
		_ = f.Close() // the child has its own
	}
	p.childEnds = nil
}

// hurry bounds what is left to be done once the child has ended: its group is dead, but a process
// that left the group may hold the pipes open.
func (p *pipes) hurry() {
	deadline := time.Now().Add(drainLimit)
	_ = errors.Join(p.stdin.SetDeadline(time.Now()), p.stdout.SetDeadline(deadline), p.stderr.SetDeadline(deadline)) // pipes have deadlines
}

func (p *pipes) close() {
	for _, f := range []stream{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			_ = f.Close() // nothing is buffered
		}
	}
}
