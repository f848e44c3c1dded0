package loops

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

const (
	// PartTime is about how long a part takes its results.
	PartTime = 10 * time.Second
	// BeatTime is about how often an execution says how far it has come.
	BeatTime = time.Second
	// doubted is how many periods may pass before the server knows more than a heartbeat says.
	doubted = 3
)

// Options are what a slot needs of the execution that runs it.
type Options struct {
	// Ref is the job's; Dir its store, nil if results are not kept.
	Ref wire.Ref
	Dir store.Dir
	// Version is that of the handler.
	Version string
	// Soon is closed when the execution should end.
	Soon <-chan struct{}
	// Entry returns what the execution has recorded so far. It is called while no tick is in hand.
	Entry func() wire.Entry
	// Write gives the sink all results of what is recorded. It is called while no tick is in hand.
	Write func() error
}

// Slot is one execution of a loop's slot: the source of its ticks and the sink of their outcomes. Process asks for a
// tick only once the one before has its outcome: one goroutine at a time uses it, but for State.
//
// What a lost execution has done counts as far as its last heartbeat says: with an output up to its last part, without
// one up to the last tick. So State lags behind what has been run.
type Slot struct {
	ticks
	parts
	o     Options
	clock wire.Clock
	from  job.LoopSlot // where the execution began
	// now is where it is. Its Stats count ticks that have begun, Skipped those before the tick in hand.
	now job.LoopSlot

	mu       sync.Mutex
	recorded job.LoopSlot // what cannot be lost, once a heartbeat has said so
	handed   int64        // ordinal after the last tick that has begun
	next     time.Time    // when the one after it is due
	rate     int64        // how many begin within a period of heartbeats
	repeated int64        // how many that have begun may have been run before
}

// New begins an execution of a slot, which is to run batch. The caller must close it.
func New(ctx context.Context, clock wire.Clock, batch wire.Batch, o Options) *Slot {
	s := &Slot{o: o, clock: clock, from: clock.LoopSlot}
	s.from.Next = batch.First
	s.now = s.from
	s.now.Stats.Lateness = append([]int64(nil), s.from.Stats.Lateness...)
	s.ticks = ticks{slot: s, batch: batch, began: batch.First, shape: wire.Shape{Format: records.JSONL, MaxItem: maxTick}}
	s.parts = parts{slot: s, ctx: ctx, first: batch.First, head: s.from.Head, series: ledger.NewToken(), sweep: startSweep(ctx, o.Dir, s.from.Head)}
	s.recorded = s.from
	next := time.Now()
	if clock.Every > 0 {
		s.setBase()
		next = s.ticks.due()
	}
	s.recorded.Base = s.now.Base
	s.begun(batch.First, next, 0)
	return s
}

// maxTick is far more than the bytes of a tick as an item.
const maxTick = 1 << 10

// pause lets what is recorded become what cannot be lost, if it is time, before the next tick.
func (s *Slot) pause() error {
	entry := s.o.Entry()
	if s.clock.Keep {
		if !s.parts.due(entry) {
			return nil
		}
		if err := s.o.Write(); err != nil {
			return err
		}
		if err := s.parts.cut(s.o.Entry()); err != nil {
			return err
		}
	}
	s.settled(entry)
	return nil
}

// Name returns what people know the slot by.
func (s *Slot) Name() string { return fmt.Sprintf("loop %s, slot %d", s.o.Ref.Job, s.clock.Slot) }

// Next waits until the next tick is due and gives that one alone: a slot never runs two at a time. It returns io.EOF if
// the execution is to end instead.
func (t *ticks) Next(chunk *records.Chunk, _, _ int) error {
	s := t.slot
	if t.began > t.batch.First+t.done { // asked for more than the batch has
		return io.EOF
	}
	if err := s.pause(); err != nil {
		return err
	}
	due, err := t.await()
	if err != nil {
		return err
	}
	t.begin(due)
	raw, err := json.Marshal(wire.Tick{Slot: s.clock.Slot, Tick: t.began - 1 + s.now.Skipped, Due: due.UTC()})
	if err != nil {
		return err
	}
	chunk.Reset()
	chunk.Add(raw, &t.shape, nil)
	return nil
}

// waitUntil waits, and meanwhile has parts written that are due. It returns io.EOF if the execution is to end.
func (t *ticks) waitUntil(at time.Time) error {
	s := t.slot
	for {
		wait := time.Until(at)
		if part, ok := s.parts.next(); ok {
			wait = min(wait, time.Until(part))
		}
		if !backoff.Wait(wait, t.slot.o.Soon) {
			return io.EOF
		}
		if !time.Now().Before(at) {
			return nil
		}
		if err := s.pause(); err != nil {
			return err
		}
	}
}

// begin counts the tick that begins now.
func (t *ticks) begin(due time.Time) {
	s := t.slot
	now := time.Now()
	if s.clock.Every > 0 {
		s.now.Stats.Began(max(0, now.Sub(due)))
	}
	if t.began < s.from.Doubt {
		s.now.Stats.Repeated++
	}
	t.began++
	next := now
	if s.clock.Every > 0 {
		next = t.due()
	}
	s.begun(t.began, next, t.pace.begin(now))
}

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

// Shape returns the form of a tick.
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

// due returns when the next tick is.
func (t *ticks) due() time.Time {
	return t.anchor.Add(time.Duration(t.began+t.slot.now.Skipped) * t.slot.clock.Every)
}
