package activities

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/stint-run/stint/job"
)

// Answer collects the outcomes of items, in order. The zero value is empty; a used one keeps its
// buffers over reset.
type Answer struct {
	buf      []byte // the results, each ended by '\n'
	outcomes []outcome
	count    int // of items that the outcomes are of
	special  int // outcomes that are not results: drops and faults
	gate     *gate
}

// outcome is a span of the buffer: one line, or none where there is no result, or many lines that
// are the results of as many items.
type outcome struct {
	start, end int
	items      int32
	tries      int32 // failed tries, where fault is set
	drop       bool
	fault      *Fault
}

// Len is the number of items that have an outcome.
func (a *Answer) Len() int { return a.count }

// Line adds a result that is one line already; line must not contain '\n'.
func (a *Answer) Line(line []byte) {
	start := len(a.buf)
	a.buf = append(append(a.buf, line...), '\n')
	a.add(outcome{start: start, end: len(a.buf), items: 1})
}

// admit gives the call the gate through which its results come as JSON.
func (a *Answer) admit(c *Call) {
	if a.gate == nil {
		a.gate = newGate()
	}
	a.gate.call = c
	c.gate = a.gate
}

// leave gives the gate up to a call that was abandoned.
func (a *Answer) leave() { a.gate = nil }

// gate encodes results, and lets those of one call through, each in one Write, once the call has
// been claimed: what encodes them may be user's code, and hang.
type gate struct {
	enc  *json.Encoder
	call *Call
}

func newGate() *gate {
	g := &gate{}
	g.enc = json.NewEncoder(g)
	g.enc.SetEscapeHTML(false)
	return g
}

func (g *gate) Write(p []byte) (int, error) {
	if !g.call.Claim() {
		return 0, errAbandoned
	}
	a := g.call.Answer
	start := len(a.buf)
	a.buf = append(a.buf, p...)
	a.add(outcome{start: start, end: len(a.buf), items: 1})
	return len(p), nil
}

// ReadLines reads results from r, to its end (or to its deadline). They become outcomes with
// Accept, and are given up where the call fails. About size bytes are expected; more than limit
// bytes are a length fault.
func (a *Answer) ReadLines(r io.Reader, size, limit int) (Unaccepted, error) {
	lines := Unaccepted{start: len(a.buf)}
	a.buf = slices.Grow(a.buf, size+1)
	for {
		if len(a.buf) == cap(a.buf) {
			a.buf = slices.Grow(a.buf, 64<<10)
		}
		n, err := r.Read(a.buf[len(a.buf):cap(a.buf)])
		a.buf = a.buf[:len(a.buf)+n]
		switch {
		case len(a.buf)-lines.start > limit:
			return lines, &Fault{Kind: job.KindLength, Err: job.Error{
				Type: "Length", Message: fmt.Sprintf("the call answered with more than %d MiB", limit>>20),
			}}
		case err == io.EOF || errors.Is(err, os.ErrDeadlineExceeded):
			return lines, nil
		case err != nil:
			return lines, fmt.Errorf("reading the answer: %w", err)
		}
	}
}

// Unaccepted are results that have been read, and are not yet outcomes.
type Unaccepted struct{ start int }

// Accept makes the lines the outcomes of want items, or returns a length fault.
func (a *Answer) Accept(lines Unaccepted, want int) error {
	if n := len(a.buf); n > lines.start && a.buf[n-1] != '\n' {
		a.buf = append(a.buf, '\n')
	}
	if got := bytes.Count(a.buf[lines.start:], []byte{'\n'}); got != want {
		return LengthFault(want, got)
	}
	a.add(outcome{start: lines.start, end: len(a.buf), items: int32(want)})
	return nil
}

// Drop adds "no result".
func (a *Answer) Drop() { a.addSpecial(outcome{drop: true}) }

// Fail adds an error, after tries failed tries of the item.
func (a *Answer) Fail(f *Fault, tries int) { a.addSpecial(outcome{fault: f, tries: int32(tries)}) }

func (a *Answer) addSpecial(o outcome) {
	o.start, o.end, o.items = len(a.buf), len(a.buf), 1
	a.special++
	a.add(o)
}

func (a *Answer) add(o outcome) {
	a.outcomes = append(a.outcomes, o)
	a.count += int(o.items)
}

// each calls fn with the outcome of one item after the other.
func (a *Answer) each(fn func(outcome)) {
	for _, o := range a.outcomes {
		if o.items == 1 {
			fn(o)
			continue
		}
		one := outcome{start: o.start, items: 1}
		for range o.items {
			one.end = one.start + bytes.IndexByte(a.buf[one.start:o.end], '\n') + 1
			fn(one)
			one.start = one.end
		}
	}
}

// mark is a state of an answer to go back to.
type mark struct{ buf, outcomes, count, special int }

func (a *Answer) mark() mark { return mark{len(a.buf), len(a.outcomes), a.count, a.special} }

func (a *Answer) undo(m mark) {
	a.buf, a.outcomes, a.count, a.special = a.buf[:m.buf], a.outcomes[:m.outcomes], m.count, m.special
}

// keep gives up what has been read and is no outcome.
func (a *Answer) keep() {
	end := 0
	if n := len(a.outcomes); n > 0 {
		end = a.outcomes[n-1].end
	}
	a.buf = a.buf[:end]
}

func (a *Answer) reset() { a.undo(mark{}) }
