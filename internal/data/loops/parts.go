package loops

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// parts is the sink of a slot's outcomes: a part about every ten seconds. After each part it writes a manifest of all
// those of this execution, which names the manifest of the execution before. So a chain has one manifest for each
// execution, and one that replaces another accounts for the same ticks and more.
//
// Manifests that have been replaced are removed by the next execution: only its beginning shows which one has been
// accepted. An execution that is cut off from the server does not know which of its own the next one builds on.
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

// At returns the bytes of results of the part that is open.
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

// span returns the ticks that entry counts beyond those in parts.
func (p *parts) span(entry wire.Entry) wire.Batch {
	return wire.Batch{Source: p.slot.clock.Slot, First: p.first + p.written.Count, Count: max(0, entry.Count-p.written.Count)}.Sealed()
}

// next returns when the part that is open should end, if there is anything to write.
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
		Version: p.slot.o.Version,
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

// State returns what an execution that is lost from now on has done. Any goroutine may call it.
func (s *Slot) State() job.LoopSlot {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.recorded
	doubt := s.doubt(time.Now())
	state.Doubt = max(state.Doubt, doubt)
	state.Stats.Repeated = s.repeated
	state.Unsure = max(0, min(doubt, s.from.Doubt)-s.handed)
	return state
}

// Final returns what the execution has done, once the sink has committed it.
func (s *Slot) Final() job.LoopSlot {
	s.settled(s.o.Entry())
	s.mu.Lock()
	defer s.mu.Unlock()
	return certain(s.recorded)
}

// Broken returns what an execution has done that has failed, and does not begin another tick. Any goroutine may call
// it.
func (s *Slot) Broken() job.LoopSlot {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.recorded
	state.Doubt = max(state.Doubt, s.handed)
	state.Stats.Repeated = s.repeated
	return certain(state)
}

// certain leaves out the doubt of a slot that has recorded all that may have been run.
func certain(state job.LoopSlot) job.LoopSlot {
	if state.Next >= state.Doubt {
		state.Doubt = 0
	}
	return state
}

// settled notes that what entry counts, all that the execution has recorded, cannot be lost any more.
func (s *Slot) settled(entry wire.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.now
	r.Next = s.from.Next + entry.Count
	r.Head = s.parts.head
	r.Stats.OK = s.from.Stats.OK + entry.OK
	r.Stats.Failed = s.from.Stats.Failed + entry.Failed
	r.Stats.Dropped = s.from.Stats.Dropped + entry.Dropped
	r.Stats.Lateness = append([]int64(nil), s.now.Stats.Lateness...)
	s.recorded = r
}

// begun notes how many ticks have begun, when the next one is due, and how many begin within a period of heartbeats.
func (s *Slot) begun(ticks int64, next time.Time, pace int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handed, s.next, s.rate, s.repeated = ticks, next, pace, s.now.Stats.Repeated
}

// doubt returns the ordinal up to which ticks may have begun before another heartbeat says more. The next one may leave
// a period later, and reach the server a period after that; the third is for a machine that is busy.
func (s *Slot) doubt(now time.Time) int64 {
	ahead := doubted*s.rate + 1 // as fast as they have begun
	if every := s.clock.Every; every > 0 {
		due := int64(0)
		if late := now.Add(doubted * BeatTime).Sub(s.next); late >= 0 {
			due = int64(late/every) + 1
		}
		if s.next.After(now) { // on time, so none begins before it is due
			ahead = due
		}
		ahead = min(max(ahead, int64(doubted*BeatTime/every)+1), due)
	}
	return s.handed + ahead
}

// sweepers is how many manifests are removed at once: there may be some hundred.
const sweepers = 4

// sweep removes manifests in the background. The zero value has nothing to remove.
type sweep struct {
	cancel context.CancelFunc
	lanes  []<-chan error
}

// startSweep removes the manifests that head, with which an execution begins, has replaced. The caller must call end.
func startSweep(ctx context.Context, dir store.Dir, head string) sweep {
	keys := replacedBy(head)
	if dir == nil || len(keys) == 0 {
		return sweep{}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := sweep{cancel: cancel}
	for first := range min(sweepers, len(keys)) {
		s.lanes = append(s.lanes, trap.Go("removing replaced manifests", func() error {
			for i := first; i < len(keys) && ctx.Err() == nil; i += sweepers {
				if dir.Delete(ctx, keys[i]) != nil {
					return nil // what stays does no harm: nothing names it
				}
			}
			return nil
		}))
	}
	return s
}

// finish waits until all have been removed. Only then does the execution write a manifest of its own: if it is lost
// before, the next one begins with the same head, and removes the others.
func (s *sweep) finish() error {
	for len(s.lanes) > 0 {
		err := <-s.lanes[0]
		s.lanes = s.lanes[1:]
		if err != nil {
			return err
		}
	}
	return nil
}

// end stops removing. It is idempotent.
func (s *sweep) end() {
	if s.cancel == nil {
		return
	}
	s.cancel()
	for _, lane := range s.lanes {
		<-lane
	}
	s.lanes = nil
}

const manifestEnd = ".jsonl"

// manifestKey returns the key of manifest n, from 1, of an execution.
func manifestKey(prefix, series string, n int) string {
	return fmt.Sprintf("%s%s-%06d%s", prefix, series, n, manifestEnd)
}

// replacedBy returns the keys of the manifests that their execution has written before head.
func replacedBy(head string) []string {
	prefix, name := path.Split(head)
	series, number, _ := strings.Cut(strings.TrimSuffix(name, manifestEnd), "-")
	n, err := strconv.Atoi(number)
	if err != nil || head != manifestKey(prefix, series, n) {
		return nil
	}
	var keys []string
	for i := 1; i < n; i++ {
		keys = append(keys, manifestKey(prefix, series, i))
	}
	return keys
}
