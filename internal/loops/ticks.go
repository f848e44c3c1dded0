package loops

import (
	"context"
	"time"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/wire"
)

// ticks is the source of a slot's ticks.
type ticks struct {
	slot  *Slot
	batch wire.Batch
	shape wire.Shape
	began int64 // ordinal after the last tick that was handed out
	done  int64 // ticks with an outcome
	// anchor is a time of this process, so that nobody who sets the machine's clock meanwhile changes the pace.
	anchor time.Time
	// pace counts the ticks begun within a period of heartbeats.
	pace pace
}

// Shape is the form of a tick.
func (t *ticks) Shape() *wire.Shape { return &t.shape }

// pace counts how many ticks begin within a period of heartbeats.
type pace struct {
	since         time.Time
	before, count int64 // in the last period, and in this one
}

// begin counts one, and returns the count of the last period, or of this one if that is more.
func (p *pace) begin(now time.Time) int64 {
	if d := now.Sub(p.since); d >= BeatTime {
		p.before, p.count, p.since = p.count, 0, now
		if d >= 2*BeatTime {
			p.before = 0
		}
	}
	p.count++
	return max(p.before, p.count)
}

// Done counts the next ticks as done.
func (t *ticks) Done(items []records.Item) {
	t.done += int64(len(items))
}

// Split returns the ticks that are done, and all that follow.
func (t *ticks) Split() (done wire.Batch, rest *wire.Batch) {
	done = t.batch.Upto(t.done, 0)
	after := t.batch.After(t.done, 0)
	if after.Count == 0 {
		return done, nil
	}
	return done, &after
}

// Bytes is 0: ticks are made, not read.
func (t *ticks) Bytes() int64 { return 0 }

// Origin returns the tick, and names the loop and its slot.
func (t *ticks) Origin(_ context.Context, _ int64, shape *wire.Shape, item *records.Item) (records.Origin, error) {
	return records.Origin{Source: t.slot.Name(), Shape: shape, Item: item}, nil
}

// Original returns the given ordinal: the slot is the first to number its ticks.
func (t *ticks) Original(_ context.Context, ordinal int64) (int64, error) { return ordinal, nil }

// NotesDrops returns false: results are not matched with ticks.
func (t *ticks) NotesDrops() bool { return false }

// Unchanged returns nil: nobody can change them.
func (t *ticks) Unchanged(context.Context) error { return nil }

// await returns when the next tick was due, once it is.
func (t *ticks) await() (due time.Time, err error) {
	s := t.slot
	if s.clock.Every == 0 {
		return time.Now(), t.waitUntil(time.Now())
	}
	t.setBase()
	due = t.due()
	if now := time.Now(); now.After(due) && !t.first() {
		if !s.clock.Skip {
			s.now.Stats.Missed++
			return due, t.waitUntil(now)
		}
		left := int64((now.Sub(due)-1)/s.clock.Every) + 1
		s.now.Skipped += left
		due = t.due()
	}
	return due, t.waitUntil(due)
}

// first reports that no tick of the slot has begun since its base was set.
func (t *ticks) first() bool { return t.began == t.batch.First && t.slot.from.Base.IsZero() }

// setBase makes the next tick due at once, if none ever was, and has times of this process follow the base.
func (t *ticks) setBase() {
	s := t.slot
	if !t.anchor.IsZero() {
		return
	}
	now := time.Now()
	if s.now.Base.IsZero() {
		s.now.Base = now.Add(-time.Duration(t.began+s.now.Skipped) * s.clock.Every).Round(0).UTC()
	}
	t.anchor = now.Add(s.now.Base.Sub(now.Round(0)))
}

// due is when the next tick is.
func (t *ticks) due() time.Time {
	return t.anchor.Add(time.Duration(t.began+t.slot.now.Skipped) * t.slot.clock.Every)
}
