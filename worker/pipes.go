package worker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// pipes are the three standard streams of a child, our ends and the child's.
type pipes struct {
	stdin          *os.File // we write
	stdout, stderr *os.File // we read
	childEnds      []*os.File
}

func newPipes(cmd *exec.Cmd) (*pipes, error) {
	p := &pipes{}
	var err error
	pipe := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		r, w, err = os.Pipe()
		return r, w
	}
	in, stdin := pipe()
	stdout, out := pipe()
	stderr, errs := pipe()
	p.stdin, p.stdout, p.stderr, p.childEnds = stdin, stdout, stderr, []*os.File{in, out, errs}
	if err != nil {
		p.close()
		p.closeChildEnds()
		return nil, fmt.Errorf("making pipes: %w", err)
	}
	growPipe(stdin)
	growPipe(stdout)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
	return p, nil
}

func (p *pipes) closeChildEnds() {
	for _, f := range p.childEnds {
		if f != nil {
			_ = f.Close() // the child has its own
		}
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
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			_ = f.Close() // nothing is buffered
		}
	}
}
