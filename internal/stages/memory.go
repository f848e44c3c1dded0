package stages

import (
	"bytes"
	"fmt"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Memory holds what the steps of a pipeline have made of some items, in memory: for a trial of them. One goroutine may use it.
type Memory struct {
	given []Line
	made  []map[int]outcome // by part, for each item
	forms map[int]records.Format
}

// Line is one item: a line without its end, or why there is none.
type Line struct {
	Data []byte
	Err  error // a *Settled or an *Undone: an earlier step has settled the item, or it is not for this step
}

// NewMemory returns a Memory of the items as the job gets them.
func NewMemory(given []Line, format records.Format) *Memory {
	m := &Memory{given: given, made: make([]map[int]outcome, len(given)), forms: map[int]records.Format{0: format}}
	for i := range m.made {
		m.made[i] = map[int]outcome{}
	}
	return m
}

// Read returns what a step reads of each item, and in which format.
func (m *Memory) Read(s *Step) ([]Line, records.Format) {
	if s.Read == nil {
		return m.given, m.forms[0]
	}
	return m.view(*s.Read)
}

func (m *Memory) view(view wire.View) ([]Line, records.Format) {
	v := &viewReader{view: view, forms: m.forms}
	v.text = v.isText(&view)
	lines := make([]Line, len(m.made))
	for i := range m.made {
		v.items, v.list, v.quoted = m.made[i], v.list[:0], v.quoted[:0]
		o := v.of(&view, v.text)
		if !o.hasLine() {
			lines[i].Err = o.err()
			continue
		}
		lines[i].Data = bytes.Clone(o.line)
	}
	return lines, v.format()
}

// Write takes what a step has made of each item, in this format.
func (m *Memory) Write(s *Step, lines []Line, format records.Format) error {
	m.forms[s.Writes] = format
	for i, line := range lines {
		o := outcome{line: line.Data}
		switch err := line.Err.(type) {
		case nil:
		case *Settled:
			o = outcome{settled: err}
		case *Undone:
			o = outcome{undone: err}
		default:
			return fmt.Errorf("item %d: %w", i, err)
		}
		m.made[i][s.Writes] = o
	}
	return nil
}

// Failed is the line of an item that a step has failed.
func Failed(err job.Error) Line {
	return Line{Err: &Settled{Line: &ledger.ErrorLine{Failure: job.Failure{Error: err}}}}
}

// Dropped is the line of an item that a step has dropped.
func Dropped() Line { return Line{Err: &Settled{}} }

// Lost returns the error of an item that has failed; nil: it was dropped, or has a line.
func (l Line) Lost() *job.Error {
	if l.Err == nil {
		return nil
	}
	o := outcome{}
	switch err := l.Err.(type) {
	case *Settled:
		o.settled = err
	case *Undone:
		o.undone = err
	default:
		return &job.Error{Message: err.Error()}
	}
	return o.failure()
}
