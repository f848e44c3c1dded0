package calls

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/codec"
	"github.com/stint-run/stint/internal/base/jsonscan"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/job"
)

// Answer collects the outcomes of items, in order. The zero value is empty; a used one keeps its
// buffers over reset.
type Answer struct {
	Buf      []byte // the results, each ended by '\n'
	outcomes []Span
	spare    []Span // memory for Fill
	Count    int    // of items that the outcomes are of
	Special  int    // outcomes that are not just results of calls: drops, faults, skipped and known ones
	faults   int    // of the Special ones
	later    int    // of the outcomes that are none: see hold
	texts    int    // bytes of the faults' texts
	read     int    // lines that have been read and are not outcomes, as Live counts them
	gate     *gate
	// Live, which may be nil, counts the outcomes as they come. Any goroutine may look.
	Live *Live
}

// Live counts the items of a batch that have been answered: those of calls that have not ended, too, so it falls if one
// fails.
type Live struct{ answered, failed atomic.Int64 }

// Add counts further items, or fewer. A nil Live counts nothing.
func (l *Live) Add(answered, failed int) {
	if l != nil {
		l.answered.Add(int64(answered))
		l.failed.Add(int64(failed))
	}
}

// Counts returns how many items have been answered, and how many of these with an error.
func (l *Live) Counts() (answered, failed int64) {
	failed = max(0, l.failed.Load()) // first: then it is not more than the other
	return max(failed, l.answered.Load()), failed
}

// Span is a span of the buffer: one line, or none if there is no result, or many lines that
// are the results of as many items. Once it is flattened it is any number of lines that are the result of one item.
type Span struct {
	start, End int
	items      int32
	Tries      int32 // failed tries, if Fault is set
	Drop       bool
	Skipped    bool // it was done already, and nothing has been run for it
	flat       bool // see Flatten
	Later      bool // the item has no outcome yet: it is called again. Fault, which may be nil, is why.
	Fault      *Fault
	Known      *records.Outcome // the item's before any call, which the others are made of; nil: it had none
}

// Len returns the number of items that have an outcome.
func (a *Answer) Len() int { return a.Count - a.later }

// Holes returns the number of items that have none, and are called again.
func (a *Answer) Holes() int { return a.later }

// Line adds a result that is one line already; line must not contain '\n'.
func (a *Answer) Line(line []byte) {
	start := len(a.Buf)
	a.Buf = append(append(a.Buf, line...), '\n')
	a.add(Span{start: start, End: len(a.Buf), items: 1})
}

// Lines adds a result that is any number of lines, each ended by '\n', of a call that is Flat.
func (a *Answer) Lines(lines []byte) {
	start := len(a.Buf)
	a.Buf = append(a.Buf, lines...)
	a.add(Span{start: start, End: len(a.Buf), items: 1, flat: true})
}

// Skip adds an empty result, of a call that is Flat one of no line, of an item that was done already.
func (a *Answer) Skip(flat bool) {
	start := len(a.Buf)
	if !flat {
		a.Buf = append(a.Buf, '\n')
	}
	a.add(Span{start: start, End: len(a.Buf), items: 1, flat: flat, Skipped: true})
}

// admit gives the call the gate through which its results come as JSON.
func (a *Answer) admit(c *Call) {
	if a.gate == nil {
		a.gate = &gate{}
	}
	a.gate.call = c
	c.gate = a.gate
}

// leave gives the gate up to a call that was abandoned.
func (a *Answer) leave() { a.gate = nil }

// gate encodes results, and lets those of one call through, each in one Write, once the call has
// been claimed: what encodes them may be user's code, and hang.
type gate struct {
	codec codec.Codec // of enc
	enc   codec.Encoder
	call  *Call
	fault *Fault // of the result, if it cannot be one
}

func (g *gate) encode(v any, as codec.Codec) error {
	if g.codec != as {
		g.codec, g.enc = as, as.NewEncoder(g)
	}
	g.fault = nil
	if err := g.enc.Encode(v); err != nil {
		return err
	}
	if g.fault != nil {
		return g.fault
	}
	return nil
}

// Write takes a whole result. One that is too large or spoiled is left out, but not refused: an encoder of
// encoding/json that has met an error of its writer is of no use any more.
func (g *gate) Write(p []byte) (int, error) {
	if size := len(p) - 1; size > MaxResult {
		g.fault = TooLargeFault(size)
	} else {
		g.fault = CheckEncoded(p, g.enc)
	}
	if g.fault != nil {
		return len(p), nil
	}
	if !g.call.Claim() {
		return 0, errAbandoned
	}
	a := g.call.Answer
	start := len(a.Buf)
	a.Buf = append(a.Buf, p...)
	a.add(Span{start: start, End: len(a.Buf), items: 1})
	return len(p), nil
}

// ReadLines reads results from r, to its end (or to its deadline). They become outcomes with
// Accept, and are given up if the call fails. About size bytes are expected; more than limit
// bytes are a length fault.
func (a *Answer) ReadLines(r io.Reader, size, limit int) (Unaccepted, error) {
	lines := Unaccepted{start: len(a.Buf)}
	a.Buf = slices.Grow(a.Buf, size+1)
	for {
		if len(a.Buf) == cap(a.Buf) {
			a.Buf = slices.Grow(a.Buf, 64<<10)
		}
		n, err := r.Read(a.Buf[len(a.Buf):cap(a.Buf)])
		a.Buf = a.Buf[:len(a.Buf)+n]
		if a.Live != nil { // lines that may become outcomes
			seen := bytes.Count(a.Buf[len(a.Buf)-n:], []byte{'\n'})
			a.read += seen
			a.Live.Add(seen, 0)
		}
		switch {
		case len(a.Buf)-lines.start > limit:
			return lines, tooLong(limit)
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
	if n := len(a.Buf); n > lines.start && a.Buf[n-1] != '\n' {
		a.Buf = append(a.Buf, '\n')
	}
	if got := bytes.Count(a.Buf[lines.start:], []byte{'\n'}); got != want {
		return LengthFault(want, got)
	}
	a.unsee()
	a.add(Span{start: lines.start, End: len(a.Buf), items: int32(want)})
	return nil
}

// each returns the outcome of each item.
func (a *Answer) each() (all []Outcome) {
	a.Each(func(o Span) {
		one := Outcome{Drop: o.Drop, Fault: o.Fault, Tries: int(o.Tries), Later: o.Later}
		if o.End > o.start {
			one.Value = a.Buf[o.start : o.End-1]
		}
		all = append(all, one)
	})
	return all
}

// unsee takes back what has been counted of lines that have been read.
func (a *Answer) unsee() {
	a.Live.Add(-a.read, 0)
	a.read = 0
}

// Drop adds "no result".
func (a *Answer) Drop() { a.addSpecial(Span{Drop: true}) }

// Fail adds an error, bounded (see [Bounded]), after tries failed tries of the item.
func (a *Answer) Fail(f *Fault, tries int) {
	a.addSpecial(Span{Fault: f.bounded(), Tries: int32(tries)})
}

// hold leaves a hole for an item that is called again; f, which may be nil, is why.
func (a *Answer) hold(f *Fault) {
	a.addSpecial(Span{Later: true, Fault: f})
}

func (a *Answer) addSpecial(o Span) {
	o.start, o.End, o.items = len(a.Buf), len(a.Buf), 1
	a.add(o)
}

func (a *Answer) add(o Span) {
	if o.Drop || o.Skipped || o.Later || o.Fault != nil || o.Known != nil {
		a.Special++
	}
	if o.Fault != nil && !o.Later {
		a.faults++
		a.texts += TextBytes(&o.Fault.Err)
		a.Live.Add(0, 1)
	}
	a.outcomes = append(a.outcomes, o)
	a.Count += int(o.items)
	if o.Later {
		a.later++
	} else {
		a.Live.Add(int(o.items), 0)
	}
}

// Each calls fn with the outcome of one item after the other.
func (a *Answer) Each(fn func(Span)) {
	for _, o := range a.outcomes {
		if o.items == 1 {
			fn(o)
			continue
		}
		one := Span{start: o.start, items: 1}
		for range o.items {
			one.End = one.start + bytes.IndexByte(a.Buf[one.start:o.End], '\n') + 1
			fn(one)
			one.start = one.End
		}
	}
}

// Cut moves the outcomes of the items from the n-th on to another answer, which is empty.
func (a *Answer) Cut(n int, into *Answer) {
	live := a.Live
	into.Live = nil
	var kept Answer
	for i, o := range a.spans() {
		if i < n {
			kept.take(o, a)
		} else {
			into.take(o, a)
		}
	}
	kept.gate, kept.Live, into.Live = a.gate, live, live
	*a = kept
}

// take adds an outcome of another answer.
func (a *Answer) take(o Span, from *Answer) {
	if o.Later || o.Fault != nil || o.Drop {
		a.addSpecial(o)
		return
	}
	start := len(a.Buf)
	a.Buf = append(a.Buf, from.Bytes(o)...)
	o.start, o.End = start, len(a.Buf)
	a.add(o)
}

// Fill adds the outcomes that items had before any call. The answer has those of others of the items, as far as they
// have any, and then has those of all up to the first that has none. What is filled in already stays. Results stay
// where they lie in the buffer, unless others come between them.
func (a *Answer) Fill(items []Item) {
	filled := Answer{gate: a.gate, outcomes: a.spare[:0]}
	inPlace := !slices.ContainsFunc(items, func(item Item) bool { return item.Outcome != nil && item.Outcome.Value != nil })
	if inPlace || a.Count == 0 {
		filled.Buf = a.Buf
	}
	next, fresh, failed := 0, 0, 0
	known := func(before *records.Outcome) { // those of the next items, up to the one that is filled in already
		for ; next < len(items) && items[next].Outcome != nil && items[next].Outcome != before; next++ {
			o := items[next].Outcome
			filled.addKnown(o)
			if !o.Counted {
				fresh++
				if o.Failure != nil {
					failed++
				}
			}
		}
	}
	a.Each(func(o Span) {
		known(o.Known)
		if inPlace {
			filled.keepSpan(o)
		} else {
			filled.take(o, a)
		}
		next++
	})
	known(nil)
	filled.Live = a.Live
	filled.Live.Add(fresh, failed)
	clear(a.outcomes) // of faults
	filled.spare = a.outcomes
	*a = filled
}

// keepSpan adds an outcome whose result lies in the buffer. Lines that are results of calls, and lie beside each other,
// are one span.
func (a *Answer) keepSpan(o Span) {
	plain := func(o *Span) bool {
		return !o.Later && !o.Drop && !o.Skipped && !o.flat && o.Fault == nil && o.Known == nil
	}
	if last := len(a.outcomes) - 1; last >= 0 && plain(&o) && plain(&a.outcomes[last]) {
		a.outcomes[last].End = o.End
		a.outcomes[last].items++
		a.Count++
		return
	}
	a.add(o)
}

func (a *Answer) addKnown(known *records.Outcome) {
	o := Span{Known: known, items: 1}
	if last := len(a.outcomes) - 1; last >= 0 {
		o.start = a.outcomes[last].End
	}
	o.End = o.start
	switch f := known.Failure; {
	case f != nil:
		o.Fault, o.Tries = (&Fault{Kind: f.Kind, Err: f.Error}).bounded(), int32(f.Attempts)
	case known.Reused && known.Line == nil:
		a.Buf = append(a.Buf, known.Value...)
		o.End, o.flat = o.start+len(known.Value), true
	case known.Value != nil:
		a.Buf = append(append(a.Buf, known.Value...), '\n')
		o.End = len(a.Buf)
	default:
		o.Drop = true
	}
	a.add(o)
}

// spans returns the outcomes, one of each item.
func (a *Answer) spans() []Span {
	all := make([]Span, 0, a.Count)
	a.Each(func(o Span) { all = append(all, o) })
	return all
}

// mark is a state of an answer to go back to.
type mark struct{ buf, outcomes, count, special, faults, texts, later int }

func (a *Answer) mark() mark {
	return mark{len(a.Buf), len(a.outcomes), a.Count, a.Special, a.faults, a.texts, a.later}
}

func (a *Answer) undo(m mark) {
	a.unsee()
	a.Live.Add(m.count-m.later-a.Len(), m.faults-a.faults)
	a.back(m)
}

func (a *Answer) back(m mark) {
	clear(a.outcomes[m.outcomes:]) // of faults
	a.Buf, a.outcomes = a.Buf[:m.buf], a.outcomes[:m.outcomes]
	a.Count, a.Special, a.faults, a.texts, a.later = m.count, m.special, m.faults, m.texts, m.later
}

// keep discards what has been read and is not an outcome.
func (a *Answer) keep() {
	a.unsee()
	end := 0
	if n := len(a.outcomes); n > 0 {
		end = a.outcomes[n-1].End
	}
	a.Buf = a.Buf[:end]
}

// Reset empties the answer once its outcomes have been recorded: they stay counted.
func (a *Answer) Reset() { a.back(mark{}) }

// Flatten makes of each result, which must be a JSON list, as many lines as the list has elements: perhaps none.
// Elements are written compact, and are otherwise the bytes that they were. Any other result becomes the error of its
// item. null is an empty list if nilIsEmpty is set: that is how Go encodes a slice that is nil. What has been flattened
// before stays as it is.
//
// It needs no memory but for the outcomes: the lines of a list are never longer than the list.
func (a *Answer) Flatten(nilIsEmpty bool) {
	old := *a
	a.outcomes = make([]Span, 0, a.Count)
	end := 0 // of what is flat in the buffer
	old.Each(func(o Span) {
		start := end
		switch {
		case o.flat, o.Later: // one that has no result yet has nothing in the buffer
			end += copy(old.Buf[end:], old.Buf[o.start:o.End])
		case o.Fault == nil && !o.Drop:
			lines, fault := flatten(old.Buf[o.start:o.End-1], nilIsEmpty, old.Buf[end:end])
			if fault != nil {
				o.Fault, o.Tries = fault, 1
				a.Special++
				a.texts += TextBytes(&fault.Err)
				break
			}
			end += len(lines)
		}
		o.start, o.End, o.flat = start, end, true
		a.outcomes = append(a.outcomes, o)
	})
	a.Buf = a.Buf[:end]
}

// flatten appends the elements of a list to lines, each ended by '\n'. lines may lie in the same memory, before the
// list.
func flatten(list []byte, nilIsEmpty bool, lines []byte) ([]byte, *Fault) {
	if fault := checkList(list, nilIsEmpty); fault != nil {
		return nil, fault
	}
	depth, quoted := 0, false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case quoted:
			lines = append(lines, c)
			if c == '\\' {
				i++
				lines = append(lines, list[i])
			}
			quoted = c != '"'
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case c == '"':
			quoted = true
			lines = append(lines, c)
		case c == '[' || c == '{':
			if depth++; depth > 1 {
				lines = append(lines, c)
			}
		case c == ']' || c == '}':
			if depth--; depth > 0 {
				lines = append(lines, c)
			}
		case c == ',' && depth == 1:
			lines = append(lines, '\n')
		case depth > 0: // otherwise it is null
			lines = append(lines, c)
		}
	}
	if len(lines) > 0 {
		lines = append(lines, '\n')
	}
	return lines, nil
}

// checkList returns why a result is not a list.
func checkList(result []byte, nilIsEmpty bool) *Fault {
	first := jsonscan.Space(result, 0)
	end, _ := jsonscan.Value(result, first)
	valid := end >= 0 && jsonscan.Space(result, end) == len(result) || json.Valid(result)
	switch {
	case !valid || !utf8.Valid(result):
		return notList("not JSON")
	case result[first] == '[', nilIsEmpty && bytes.HasPrefix(result[first:], []byte("null")):
		return nil
	}
	kind := "a number"
	switch result[first] {
	case '{':
		kind = "an object"
	case '"':
		kind = "a string"
	case 't', 'f':
		kind = "a bool"
	case 'n':
		kind = "null"
	}
	return notList(kind)
}

func notList(kind string) *Fault {
	return Faultf(job.KindInvalid, "Invalid",
		"the handler's answer is %s, and the job flattens lists: answer with a JSON list, [] for no result", kind)
}

// Bytes returns those of an outcome in the buffer: lines, each with its end.
func (a *Answer) Bytes(o Span) []byte { return a.Buf[o.start:o.End] }
