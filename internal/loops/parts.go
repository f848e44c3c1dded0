package loops

import (
	"context"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/outputs"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// parts is the sink of a slot's outcomes: a part about every ten seconds. After each part it writes a manifest of all those of
// this execution, which names the manifest of the execution before. So a chain has one manifest for each
// execution, and one that replaces another accounts for the same ticks and more.
//
// Manifests that have been replaced are removed by the next execution: only its beginning shows which one has been accepted. An
// execution that is cut off from the server does not know which of its own the next one builds on.
type parts struct {
	slot  *Slot
	ctx   context.Context
	first int64 // ordinal of the first tick of the execution

	part    *outputs.Part
	token   string
	last    time.Time  // when the last part ended; zero before the first tick
	written wire.Entry // what the parts so far count
	entries []wire.Entry
	head    string // the manifest of all of them
	series  string // token of the manifests of this execution
	sweep   sweep  // of the manifests of the execution before
}

// At is the bytes of results of the part that is open.
func (p *parts) At() int64 {
	if p.part == nil {
		return 0
	}
	return p.part.At()
}

// Results takes results; they are dropped if the loop keeps none.
func (p *parts) Results(ctx context.Context, lines []byte) (next []byte, err error) {
	if !p.slot.clock.Keep {
		return lines[:0], nil
	}
	return p.open().Results(ctx, lines)
}

// Note takes a line about a tick without a result.
func (p *parts) Note(ctx context.Context, line wire.ErrorLine) error {
	if !p.slot.clock.Keep {
		return nil
	}
	return p.open().Note(ctx, line)
}

// open returns the part that is open, a new one if none is.
func (p *parts) open() *outputs.Part {
	if p.part == nil {
		p.token = ledger.NewToken()
		p.part = outputs.NewPart(p.slot.o.Dir, p.slot.o.Ref.Run, wire.Entry{Batch: p.span(wire.Entry{}), Part: p.token}, outputs.NoJoiner{})
	}
	return p.part
}

// span is the ticks that entry counts beyond those in parts.
func (p *parts) span(entry wire.Entry) wire.Batch {
	return wire.Batch{Source: p.slot.clock.Slot, First: p.first + p.written.Count, Count: max(0, entry.Count-p.written.Count)}.Sealed()
}

// next is when the part that is open should end, if there is anything to write.
func (p *parts) next() (at time.Time, ok bool) {
	if !p.slot.clock.Keep || p.slot.o.Entry().Count == p.written.Count {
		return time.Time{}, false
	}
	return p.last.Add(PartTime), true
}

// due reports that the part that is open should end. Its time begins with its first outcome.
func (p *parts) due(entry wire.Entry) bool {
	if entry.Count == p.written.Count {
		p.last = time.Now()
		return false
	}
	return time.Since(p.last) >= PartTime
}

// cut ends the part that is open: with it all that entry counts is in the store, under a new head.
func (p *parts) cut(entry wire.Entry) error {
	if entry.Count == p.written.Count {
		return nil
	}
	e := wire.Entry{
		Batch: p.span(entry), OK: entry.OK - p.written.OK, Failed: entry.Failed - p.written.Failed, Dropped: entry.Dropped - p.written.Dropped,
	}
	if p.part != nil {
		e.Part = p.token
		if err := p.part.Commit(&e); err != nil {
			return ledger.StoreError(job.ErrorOutput, err)
		}
	}
	if err := p.sweep.finish(); err != nil {
		return err
	}
	entries := append(slices.Clone(p.entries), e)
	var previous []string
	if before := p.slot.from.Head; before != "" {
		previous = []string{before}
	}
	key := manifestKey(ledger.ManifestsPrefix(p.slot.o.Ref.Run), p.series, len(entries))
	ctx := context.WithoutCancel(p.ctx)
	if err := ledger.PutManifest(ctx, p.slot.o.Dir, key, p.slot.o.Ref, p.slot.clock.Slot, previous, entries, wire.Besides{}); err != nil {
		return err
	}
	p.entries, p.head, p.written, p.last, p.part = entries, key, entry, time.Now(), nil
	return nil
}

// Commit ends the last part.
func (p *parts) Commit(entry *wire.Entry) error {
	if !p.slot.clock.Keep {
		return nil
	}
	return p.cut(*entry)
}

// Close discards the part that is open. It is idempotent.
func (p *parts) Close() {
	p.sweep.end()
	if p.part != nil {
		p.part.Close()
	}
}
