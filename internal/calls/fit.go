package calls

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"unsafe"

	"github.com/stint-run/stint/job"
)

// A worker holds the outcomes of a call in memory, so that is bounded, whatever its handler answers.
const (
	// AnswerLimit is the most, in bytes, that the outcomes of a call of several items may have, give or
	// take one outcome. Items beyond it are called again, in smaller calls.
	AnswerLimit = 32 << 20
	// lineLimit is the most, in bytes, that a filter may answer to one item.
	lineLimit = 256 << 20
	// recordedAt is how many bytes of outcomes are recorded before another call is made.
	recordedAt = AnswerLimit / 4
)

// FullFault says that a call of several items was answered with more than [AnswerLimit].
func FullFault() *Fault {
	fault := tooLong(AnswerLimit)
	fault.Full = true
	return fault
}

// ReadLines reads the call's results, as [Answer.ReadLines] does, within the limits of answers.
func (c *Call) ReadLines(r io.Reader, size int) (Unaccepted, error) {
	if len(c.Items) == 1 {
		return c.Answer.ReadLines(r, size, lineLimit)
	}
	lines, err := c.Answer.ReadLines(r, size, AnswerLimit)
	if fault, ok := errors.AsType[*Fault](err); ok {
		fault.Full = true
	}
	return lines, err
}

func tooLong(limit int) *Fault {
	return &Fault{Kind: job.KindLength, Err: job.Error{
		Type: "Length", Message: fmt.Sprintf("the call answered with more than %d MiB", limit>>20),
	}}
}

// size is the memory of the outcomes' results and texts, in bytes.
func (a *Answer) size() int { return len(a.Buf) + a.texts }

// Memory is about how many bytes the outcomes take.
func (a *Answer) Memory() int64 {
	return int64(a.size()) + int64(len(a.outcomes))*int64(unsafe.Sizeof(Span{}))
}

// Full reports whether the outcomes have reached AnswerLimit.
func (a *Answer) Full() bool { return a.size() >= AnswerLimit }

// TextBytes is how many bytes the texts of an error have.
func TextBytes(e *job.Error) int { return len(e.Type) + len(e.Message) + len(e.Stack) }

// Fit learns how much a handler answers, and bounds calls so that their answers keep well below
// AnswerLimit. It is safe for concurrent use; nil bounds nothing.
type Fit struct {
	perItem atomic.Int64 // bytes of an item's outcome, of late; 0: not known
}

// Items is how many items the next call should have, out of so many.
func (f *Fit) Items(most int) int {
	if f == nil {
		return most
	}
	per := f.perItem.Load()
	if per == 0 {
		return most
	}
	return int(max(1, min(int64(most), AnswerLimit/2/per)))
}

// Bytes is about how much so many items are answered with; 0 if that is not known.
func (f *Fit) Bytes(items int) int64 { return f.perItem.Load() * int64(items) }

// learn takes in that so many items were answered with so many bytes. More than before counts at once,
// less by and by.
func (f *Fit) learn(items, bytes int) {
	if f == nil || items == 0 {
		return
	}
	per := int64(bytes / items)
	if old := f.perItem.Load(); per < old {
		per = (3*old + per) / 4
	}
	f.perItem.Store(per)
}
