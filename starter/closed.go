package starter

import (
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/stint-run/stint/job"
)

// closedFile stands for a standard file that was closed when the program began. It is an io.Reader and an io.Writer.
type closedFile struct{ name string }

func (c closedFile) Read([]byte) (int, error)  { return 0, c.err() }
func (c closedFile) Write([]byte) (int, error) { return 0, c.err() }

func (c closedFile) err() error {
	return fmt.Errorf("the standard %s is closed: %w", c.name, fs.ErrClosed)
}

// checkStandard refuses a job that needs a standard file which is closed.
func (p *Program) checkStandard(spec job.Spec) error {
	if _, closed := p.Stdin.(closedFile); closed && slices.Contains(spec.Inputs(), job.StandardInput) {
		return usageError("the standard input is closed, and it is named as an input: connect it, or leave - out")
	}
	if p.outputClosed && spec.Output == "" {
		return usageError("the standard output is closed, and the results would go there: " +
			"name --output FILE (/dev/null throws them away, also where a program has opened it as this output)")
	}
	return nil
}

// results is where the results of a job go that has no output of its own.
func (p *Program) results() io.Writer {
	if p.outputClosed {
		return closedFile{"output"}
	}
	return p.Stdout
}
