package calls

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/job"
)

// Trial is what an item without an outcome has behind it.
type Trial struct {
	Tries  int           // that have failed
	Waited time.Duration // because its handler has asked for that: see [RetryAfterError]
	Due    time.Time     // it is not called again before; zero: at once
	Unfit  int           // of Tries, those that were answered, with what does not fit: only this execution knows of them
}

// Trials are those of the items of one execution of a batch. Those of the items in its rest go on with it: a cut
// takes no tries away, and gives none. They stay once an item has its outcome: that may be lost, because another
// item before it has none. It is safe for concurrent use; a nil Trials has none, and keeps none.
type Trials struct {
	any atomic.Bool

	mu sync.Mutex
	of map[int64]Trial // by ordinal
}

// Any reports whether there are any.
func (t *Trials) Any() bool { return t != nil && t.any.Load() }

// Of returns an item's.
func (t *Trials) Of(ordinal int64) Trial {
	if t == nil || !t.any.Load() {
		return Trial{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[ordinal]
}

func (t *Trials) set(ordinal int64, trial Trial) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[int64]Trial{}
		t.any.Store(true)
	}
	t.of[ordinal] = trial
}

// note notes that an item has failed so often.
func (t *Trials) note(ordinal int64, tries int) {
	trial := t.Of(ordinal)
	trial.Tries = tries
	t.set(ordinal, trial)
}

// wait has an item wait, for a reason that is not its own.
func (t *Trials) wait(ordinal int64, due time.Time) {
	trial := t.Of(ordinal)
	trial.Due = due
	t.set(ordinal, trial)
}

// MaxTrials bounds what Encode returns, in bytes: it is part of a batch, which goes through a history.
const MaxTrials = 1 << 10

// maxRun is the most items of a batch, and so of a run of items that have the same behind them.
const maxRun = 100_000

// Encode returns those of the items from first on, for [NewTrials]. Items that have the same behind them are
// together. If they are too many for a kilobyte, the last ones are left out: their tries begin anew.
func (t *Trials) Encode(first int64) []byte {
	if t == nil || !t.any.Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	var out []byte
	end := first
	ordinals := slices.Sorted(maps.Keys(t.of))
	done, _ := slices.BinarySearch(ordinals, first)
	ordinals = ordinals[done:]
	for i := 0; i < len(ordinals); {
		from, trial := ordinals[i], t.of[ordinals[i]].bare(now)
		n := 1
		for i+n < len(ordinals) && ordinals[i+n] == from+int64(n) && t.of[ordinals[i+n]].bare(now) == trial {
			n++
		}
		if i += n; trial == (Trial{}) {
			continue
		}
		run := binary.AppendUvarint(nil, uint64(from-end))
		run = binary.AppendUvarint(run, uint64(n))
		run = binary.AppendUvarint(run, uint64(trial.Tries))
		run = binary.AppendUvarint(run, uint64(trial.Waited.Milliseconds()))
		due := uint64(0)
		if !trial.Due.IsZero() {
			due = uint64(trial.Due.UnixMilli())
		}
		if run = binary.AppendUvarint(run, due); len(out)+len(run) > MaxTrials {
			break
		}
		out, end = append(out, run...), from+int64(n)
	}
	return out
}

// bare returns the trial as it is encoded: in milliseconds, and without a time that is over.
func (t Trial) bare(now time.Time) Trial {
	t.Waited, t.Unfit = t.Waited.Truncate(time.Millisecond), 0
	if !t.Due.After(now) {
		return Trial{Tries: t.Tries, Waited: t.Waited}
	}
	t.Due = time.UnixMilli(t.Due.UnixMilli())
	return t
}

// NewTrials returns what Encode has encoded, for a batch of so many items from first on. What is not of these,
// or makes no sense, is left out.
func NewTrials(encoded []byte, first, count int64) *Trials {
	t := &Trials{}
	next, end := uint64(0), uint64(count)
	for len(encoded) > 0 {
		var run [5]uint64
		for i := range run {
			v, n := binary.Uvarint(encoded)
			if n <= 0 {
				return t
			}
			run[i], encoded = v, encoded[n:]
		}
		skip, n := run[0], run[1]
		fits := skip <= end-next && n <= end-next-skip && n <= maxRun
		if !fits || run[2] > 1<<30 || run[3] > uint64(WaitLimit.Milliseconds()) || run[4] > 1<<53 {
			return t
		}
		trial := Trial{Tries: int(run[2]), Waited: time.Duration(run[3]) * time.Millisecond}
		if run[4] > 0 {
			trial.Due = time.UnixMilli(int64(run[4]))
		}
		for i := range n {
			t.set(first+int64(next+skip+i), trial)
		}
		next += skip + n
	}
	return t
}

// WaitLimit is how long an item may wait in all because its handler asks for that, without an attempt. One that
// would have to wait longer is recorded as failed.
const WaitLimit = 10 * time.Minute

// minWait is the shortest such wait: so no handler is called again and again at once.
const minWait = 10 * time.Millisecond

// RetryAfterError is a handler's request to call an item, or a call, again later. That costs no attempt, and
// nothing else waits for it.
type RetryAfterError struct {
	After time.Duration
	Cause error // may be nil
}

func (e *RetryAfterError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("to be tried again after %v", e.After)
	}
	return fmt.Sprintf("to be tried again after %v: %v", e.After, e.Cause)
}

func (e *RetryAfterError) Unwrap() error { return e.Cause }

// fault returns the fault of an item that is to be called again later.
func (e *RetryAfterError) fault() *Fault {
	f := Fault{Kind: job.KindError, Err: job.Error{Type: "RetryAfter"}}
	if e.Cause != nil {
		f = *FaultOf(e.Cause)
	}
	return f.RetryAfter(e.After)
}

// RetryAfter makes of the fault one that has the item called again, after that time.
func (f Fault) RetryAfter(after time.Duration) *Fault {
	f.After = max(after, minWait)
	return &f
}

// Tried returns how often the item at this index has failed before the call.
func (c *Call) Tried(i int) int { return c.trials.Of(c.Items[i].Ordinal).Tries }

// Unfit returns how often the item at this index was answered with what does not fit.
func (c *Call) Unfit(i int) int { return c.trials.Of(c.Items[i].Ordinal).Unfit }

// NoteUnfit notes such an answer.
func (c *Call) NoteUnfit(i int) {
	ordinal := c.Items[i].Ordinal
	trial := c.trials.Of(ordinal)
	trial.Unfit++
	c.trials.set(ordinal, trial)
}

// Postpone leaves the item at this index, the next in order, without an outcome for now: it is called again,
// after the wait that the fault asks for, or else after the usual one. tries have failed so far. If it has
// waited too long already, the fault becomes its outcome.
func (c *Call) Postpone(i int, f *Fault, tries int) {
	ordinal := c.Items[i].Ordinal
	if c.trials == nil { // somebody else decides
		c.Answer.hold(f)
		return
	}
	trial := c.trials.Of(ordinal)
	trial.Tries = tries
	wait := f.After
	switch {
	case wait == 0:
		wait = c.rules.delay(f, tries, c.Backoff, c.spread)
	case trial.Waited+wait > WaitLimit:
		c.Answer.Fail(waitedTooLong(f, trial.Waited), tries+1)
		return
	default:
		trial.Waited += wait
	}
	if c.now.IsZero() {
		c.now = time.Now()
	}
	trial.Due = c.now.Add(wait)
	c.trials.set(ordinal, trial)
	c.Answer.hold(f)
}

// waitedTooLong is the error of an item that must not wait any more.
func waitedTooLong(f *Fault, waited time.Duration) *Fault {
	failed := *f
	failed.After = 0
	if f.Err.Message != "" {
		failed.Err.Message = ": " + f.Err.Message
	}
	failed.Err.Message = fmt.Sprintf(
		"its handler asks for another try after %v, it has waited for %v so far, and the limit for an item is %v in all%s",
		f.After.Round(time.Millisecond), waited.Round(time.Millisecond), WaitLimit, failed.Err.Message)
	return failed.bounded()
}

// Hope counts what shows that a handler cannot work, over all lanes of one execution of a batch: items that failed in
// calls of themselves alone, before any item of the job has succeeded. It is safe for concurrent use.
type Hope struct {
	limit  int64
	alone  atomic.Int64
	worked atomic.Bool
}

// NewHope returns a Hope that is lost with so many such items; 0: never.
func NewHope(limit int64) *Hope { return &Hope{limit: limit} }

// succeeded notes that an item has succeeded.
func (h *Hope) succeeded() {
	if h != nil {
		h.worked.Store(true)
	}
}

// failed notes an item that failed alone, and reports whether hope is lost.
func (h *Hope) failed() (lost bool) {
	if h == nil {
		return false
	}
	n := h.alone.Add(1)
	return h.limit > 0 && n >= h.limit && !h.worked.Load()
}
