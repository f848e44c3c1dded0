package calls

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Trial is what an item without an outcome has behind it.
type Trial struct {
	Tries  int           // that have failed
	Waited time.Duration // because its handler has asked for that: see [RetryAfterError]
	Due    time.Time     // it is not called again before; zero: at once
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
	t.Waited = t.Waited.Truncate(time.Millisecond)
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
