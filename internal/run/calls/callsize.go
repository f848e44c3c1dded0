package calls

import (
	"errors"
	"io"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/stint-run/stint/job"
	"golang.org/x/time/rate"
)

// Pace cuts calls so that each takes about the target. It is safe for concurrent use.
type Pace struct {
	Target time.Duration // 0: all calls have the first one's items
	First  int           // items, before anything is known
	Most   int           // items

	perItem atomic.Int64 // nanoseconds an item takes, of late; 0: not known
}

// Items returns how many items the next call should have.
func (p *Pace) Items() int {
	per := p.perItem.Load()
	if per == 0 {
		return p.First
	}
	return int(min(int64(p.Most), max(1, int64(p.Target)/per)))
}

// Fits reports whether so many items are known to take at most the target, and at most half of the timeout. A
// timeout of 0 means none.
func (p *Pace) Fits(items int64, timeout time.Duration) bool {
	per, within := p.perItem.Load(), p.Target
	if timeout > 0 {
		within = min(within, timeout/2)
	}
	return per > 0 && items <= int64(within)/per
}

// Learn takes in that so many items have taken so long.
func (p *Pace) Learn(items int, took time.Duration) {
	if p.Target == 0 || items == 0 {
		return
	}
	per := max(1, int64(took)/int64(items))
	if old := p.perItem.Load(); old > 0 {
		per = (old + per) / 2
	}
	p.perItem.Store(per)
}

// Settled returns how many items calls get in the end if starting one takes so many seconds, and each
// of its items so many more.
func (p *Pace) Settled(start, item float64) int {
	items := float64(p.Most)
	if item > 0 {
		items = min(items, (p.Target.Seconds()-start)/item)
	}
	return int(max(1, items))
}

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
	return Faultf(job.KindLength, "Length", "the call answered with more than %d MiB", limit>>20)
}

// size returns the memory of the outcomes' results and texts, in bytes.
func (a *Answer) size() int { return len(a.Buf) + a.texts }

// Memory is about how many bytes the outcomes take.
func (a *Answer) Memory() int64 {
	return int64(a.size()) + int64(len(a.outcomes))*int64(unsafe.Sizeof(Span{}))
}

// Full reports whether the outcomes have reached AnswerLimit.
func (a *Answer) Full() bool { return a.size() >= AnswerLimit }

// TextBytes returns how many bytes the texts of an error have.
func TextBytes(e *job.Error) int { return len(e.Type) + len(e.Message) + len(e.Stack) }

// Fit learns how much a handler answers, and bounds calls so that their answers keep well below
// AnswerLimit. It is safe for concurrent use; nil bounds nothing.
type Fit struct {
	perItem atomic.Int64 // bytes of an item's outcome, of late; 0: not known
}

// Items returns how many items the next call should have, out of so many.
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

// Limiter bounds the items that all slots of a worker together begin in a time, of whatever jobs.
// Bursts are of one second's items, or of one. The nil Limiter has no limit.
type Limiter struct{ bucket *rate.Limiter }

// NewLimiter returns a Limiter for a rate; nil if that is 0.
func NewLimiter(limit job.Rate) *Limiter {
	if limit == 0 {
		return nil
	}
	perSecond := float64(limit) / 1000
	return &Limiter{rate.NewLimiter(rate.Limit(perSecond), int(max(1, min(perSecond, 1<<30))))}
}

// Portion returns the most items to begin at once, out of so many.
func (l *Limiter) Portion(items int) int {
	if l == nil {
		return items
	}
	return min(items, l.bucket.Burst())
}

// Take waits until so many items, no more than a portion, may be begun. ok is false if the batch
// should end instead.
func (l *Limiter) Take(m *Watch, items int) (waited time.Duration, ok bool) {
	if l == nil || items == 0 {
		return 0, true
	}
	began := time.Now()
	taken := l.bucket.ReserveN(began, items)
	if m.Wait(taken.DelayFrom(began)) {
		return time.Since(began), true
	}
	taken.Cancel()
	return time.Since(began), false
}
