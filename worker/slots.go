package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/base/procs"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/company"
	"github.com/stint-run/stint/internal/run/permits"
	"github.com/stint-run/stint/internal/run/tuning"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// slotSet is a worker's slots. It assigns places in them to the executions of batches: a slot has as
// many places as it may run calls at once. It is safe for concurrent use.
//
// A slot has a number, which outlives its processes; the set (slots.go) takes each batch into the slot that has the
// least to do. A slot has as many places (concurrency.go) as it makes calls at once: a batch has one, and takes more
// if no other batch needs them. A worker asks for another batch when a slot can use one: when it has free places, or,
// with several, shortly before it has nothing left to begin. With --concurrency auto the number is that of a tuner
// (internal/run/tuning), which compares the throughput with different ones and halves it on slow-down requests
// (decision 022). It observes the calls and sets the number of places.
//
// An item that workers may have died of is tried while no other batch is in any slot: whoever ends the worker then is
// known (decision 041).
//
// When a slot's process dies its next incarnation is started: the first time in a row at once, then after waits that
// double, and after --restarts of them the slot is out. Restarts while a fault is being narrowed down do not count. A
// worker without slots ends, and its batches are run elsewhere. A batch has its places for as long as it makes calls:
// while its part goes to the disk and its answer to the server, the slot's next batch already runs.
//
// A program (one incarnation) has three goroutines: one reads its frames, one its standard error, one waits for its
// end and then ends the calls in hand. The goroutine that makes a call writes it and, if calls are quick, reads its
// answer, too (decision 010); the reader of frames never waits for a program that does not read. Results are kept as
// they come, so a crash costs only items without a result.
type slotSet struct {
	worker  string
	fixed   int           // calls that a slot makes at once, unless there is a tuner
	tuner   *tuning.Tuner // nil: there is none
	permits *permits.Permits
	observe func(slotEvent)
	alone   atomic.Int64 // batches that should be alone, and wait for it or are in a slot

	patience patience
	lack     lack

	mu       sync.Mutex
	slots    []*slot
	programs bool          // each slot keeps a program running
	changed  chan struct{} // closed, and replaced, when a place may have become free
	gone     chan struct{} // closed when the last slot is out
	why      error         // why that was; set before gone is closed
}

func newSlotSet(worker string, o Options, observe func(slotEvent)) *slotSet {
	r := &slotSet{
		worker: worker, fixed: o.Concurrency, observe: observe, patience: usualPatience,
		changed: make(chan struct{}), gone: make(chan struct{}),
	}
	if o.Concurrency == autoConcurrency {
		r.tuner = tuning.New(o.Slots, time.Now)
	}
	r.permits = permits.New(o.Slots*r.most(), r.wanted)
	for i := range o.Slots {
		r.slots = append(r.slots, &slot{set: r, number: i, restarts: o.Restarts, changed: make(chan struct{}), executions: map[*execution]struct{}{}})
	}
	return r
}

// aloneWait is how long a batch that should be alone waits for others to leave the slots: some run for an hour.
const aloneWait = 10 * time.Second

// Take waits for a place. A batch that should be alone in the worker keeps others out until it leaves.
func (r *slotSet) Take(ctx context.Context, o calls.Occupant) (calls.Slot, error) {
	if o.Alone {
		r.alone.Add(1)
	}
	t, err := r.awaitAdmission(ctx, o)
	if err != nil {
		r.letIn(o)
		return nil, err
	}
	return t.awaitPlace(ctx)
}

func (r *slotSet) awaitAdmission(ctx context.Context, o calls.Occupant) (*execution, error) {
	wait := placeWait
	if o.Alone {
		wait = aloneWait
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	for beside := false; ; { // whether one that should be alone puts up with others
		t, changed := r.admit(o, beside)
		if t != nil {
			return t, nil
		}
		select {
		case <-changed:
		case <-late.C:
			if !o.Alone || beside {
				return nil, calls.ErrNoSlot
			}
			beside = true
			late.Reset(placeWait)
		case <-r.gone:
			return nil, calls.ErrNoSlot
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// letIn notes that a batch is gone: if it should have been alone, others may come in again.
func (r *slotSet) letIn(o calls.Occupant) {
	if o.Alone {
		r.alone.Add(-1)
		r.wake()
		r.permits.Wake()
	}
}

// admit takes the batch into the slot with the least load. It returns no execution if the batch has to wait: for any
// slot to have a place, or because one of those that it would be beside should be alone.
func (r *slotSet) admit(o calls.Occupant, beside bool) (*execution, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !o.Alone && r.alone.Load() > 0 {
		return nil, r.changed
	}
	for {
		var best *slot
		least, used := load{}, false
		for _, s := range r.slots {
			l, ok := s.load()
			if used = used || l.used; ok && (best == nil || l.less(least)) {
				best, least = s, l
			}
		}
		if best == nil || o.Alone && used && !beside {
			return nil, r.changed
		}
		if t := best.admit(o); t != nil { // nil if another batch has just taken the place
			r.permits.Admitted()
			return t, nil
		}
	}
}

// wanted returns how many more batches the slots can use.
func (r *slotSet) wanted() int {
	if r.alone.Load() > 0 {
		return 0
	}
	n := 0
	for _, s := range r.slots {
		n += s.wanted()
	}
	return n
}

// wake wakes those who wait for a place.
func (r *slotSet) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

// lost notes that a slot is out. If several slots go out at once, each of them may find that no slot is left: the first
// one counts.
func (r *slotSet) lost(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why != nil {
		return
	}
	for _, s := range r.slots {
		if s.isOut() == nil {
			return
		}
	}
	r.why = fmt.Errorf("no slot is left: %w", why)
	close(r.gone)
}

// slot is one of a worker's positions for running calls.
type slot struct {
	set      *slotSet
	number   int
	restarts int // that it may have in a row

	mu          sync.Mutex
	changed     chan struct{} // closed, and replaced, when a field below has changed
	incarnation int
	failed      int // incarnations that have ended in a row without an answered call
	program     *program
	resting     time.Time    // until when no call should be made
	hall        company.Hall // of the calls that its program has in hand
	short       shortage     // why nothing can be begun in it
	out         error        // why the slot runs no calls any more
	executions  map[*execution]struct{}
	busy        int          // places that they have
	leaving     int          // those of them that will be given up because they are too many
	queue       []*execution // wait for their first place
	waiters     []*waiter    // for further places

	held atomic.Int64 // bytes of outcomes that are held back
}

// load says how much a slot has to do.
type load struct {
	items   int64 // in hand and to begin: there may be many although places are free
	waiting bool  // its program is not ready
	short   bool  // nothing can be begun in it
	used    bool  // it has batches
}

// less reports whether a slot with the load is a better choice for another batch.
func (l load) less(o load) bool {
	if l.short != o.short {
		return o.short
	}
	if l.items != o.items {
		return l.items < o.items
	}
	return o.waiting && !l.waiting
}

// load returns the slot's load. It is not ok if the slot takes no batch. A batch waits for a certain slot only if the
// slot makes several calls at once, because a place is then free soon.
func (s *slot) load() (l load, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.set.concurrency()
	l = load{items: int64(s.busy) + s.left(), waiting: s.program == nil, short: s.short.why != nil, used: len(s.executions) > 0}
	return l, s.out == nil && (most > 1 || s.busy+len(s.queue) < most)
}

// left returns how many items of the slot's batches no call has been begun for. The lock is held.
func (s *slot) left() (items int64) {
	for t := range s.executions {
		items += t.left.Load()
	}
	return items
}

// wanted returns how many more batches the slot can use. A slot that makes several calls at once gets its next batch
// before it runs out of items to begin.
func (s *slot) wanted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.set.concurrency()
	switch left := s.left(); {
	case s.out != nil:
		return 0
	case s.short.lasts(s.set.patience):
		return s.toTry()
	case most == 1:
		return max(0, 1-s.busy)
	case left >= int64(most):
		return 0
	default:
		return max(most-s.busy-len(s.queue)-int(left), 1-len(s.queue), 0)
	}
}

// toTry returns how many batches a slot should take in which nothing could be begun: one, when it is time to try again.
// The lock is held.
func (s *slot) toTry() int {
	if time.Now().Before(s.short.until) || len(s.executions) > 0 || s.set.programs {
		return 0
	}
	return 1
}

// describe returns the slot and its incarnation.
func (s *slot) describe() wire.SlotRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := wire.SlotRef{Worker: s.set.worker, Slot: s.number, Incarnation: s.incarnation, PID: ownPID, Process: procs.Own(), Concurrency: s.set.concurrency()}
	if s.program != nil {
		at.PID = s.program.pid()
	}
	return at
}

func (s *slot) isOut() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out
}

// change applies fn and wakes those who wait for a change of the slot.
func (s *slot) change(fn func()) {
	s.mu.Lock()
	fn()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	s.set.wake()
}

// ready waits until the slot's program may be called. While a call of a group is under way, only calls of that group
// are made. It returns nil if the batch should end first.
func (s *slot) ready(soon <-chan struct{}, g *company.Group) (p *program, err error) {
	s.mu.Lock()
	s.hall.Wait(g)
	s.mu.Unlock()
	defer func() {
		if p == nil && g != nil {
			s.change(func() { s.hall.GiveUp(g) })
		}
	}()
	for {
		s.mu.Lock()
		p, out, changed, rest := s.program, s.out, s.changed, time.Until(s.resting)
		short, lasts := s.short.why, s.short.lasts(s.set.patience)
		if p != nil && p.over() {
			p = nil // the slot is about to notice it
		}
		if !s.hall.May(g) {
			p = nil // release wakes it
		}
		if p != nil && out == nil && rest <= 0 {
			s.hall.Begin(g)
			s.mu.Unlock()
			return p, nil
		}
		s.mu.Unlock()
		switch {
		case out != nil:
			return nil, calls.ErrNoSlot
		case p == nil && lasts:
			return nil, short
		}
		var rested <-chan time.Time
		if p != nil {
			rested = time.After(rest)
		}
		select {
		case <-changed:
		case <-rested:
		case <-soon:
			return nil, nil
		}
	}
}

// release notes the end of a call that ready has allowed.
func (s *slot) release() {
	s.mu.Lock()
	awaited := s.hall.End()
	s.mu.Unlock()
	if awaited {
		s.change(func() {})
	}
}

// accuse puts calls, which were in hand when the program died, into groups for their next tries. The first half of
// several calls is tried apart from the second; a single call, which has died alone, is tried alone.
func (s *slot) accuse(all []*pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(all) == 1 {
		all[0].group = s.hall.Alone()
		return
	}
	first, second := s.hall.Halves()
	for i, c := range all {
		if c.group = first; i >= (len(all)+1)/2 {
			c.group = second
		}
	}
}

// start starts the programs of all slots and waits until each is ready: all, or none and an error
// that names the slot (W3, W4).
func (h *host) start(ctx context.Context) error {
	began := make([]*program, len(h.set.slots))
	failed := make(chan error, len(began))
	ctx, cancel := context.WithTimeout(ctx, h.options.Ready)
	defer cancel()
	for i, s := range h.set.slots {
		h.slots.Go(func() {
			var err error
			if defect := trap.Run("starting a program", func() { began[i], err = h.launchFirst(ctx, s) }); defect != nil {
				err = defect
			}
			if err != nil {
				err = fmt.Errorf("slot %d: %w", s.number, err)
			}
			failed <- err
		})
	}
	var first error
	for range began {
		if err := <-failed; err != nil && first == nil {
			first = err
			cancel() // the others need not continue
		}
	}
	if first != nil {
		h.endAll(began)
		return fmt.Errorf("starting %s: %w", strings.Join(h.argv, " "), first)
	}
	for i, s := range h.set.slots {
		s.change(func() { s.program = began[i] })
		h.slots.Go(func() { h.run("keeping a program running", func() { h.keep(s, began[i]) }, nil) })
	}
	return nil
}

func (h *host) endAll(programs []*program) {
	var ending sync.WaitGroup
	for _, p := range programs {
		if p != nil {
			ending.Go(func() { h.run("ending a program", p.goodbye, p.child.Kill) })
		}
	}
	ending.Wait()
}

// launchReady starts an incarnation and waits until it is ready.
func (h *host) launchReady(ctx context.Context, s *slot, incarnation int) (*program, error) {
	p, err := h.launch(s, incarnation)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.ready:
		h.observe(slotEvent{Kind: slotReady, Slot: s.number, PID: p.pid(), Incarnation: incarnation})
		return p, nil
	case <-p.ended:
		return nil, startError(p.fate, "")
	case <-h.closing:
	case <-ctx.Done():
	}
	why := calls.Faultf(job.KindCrash, "NotReady", "it did not say that it was ready within %v", h.options.Ready)
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	p.end(ending{fault: why}, late)
	<-p.ended
	if !late {
		return nil, errClosing
	}
	return nil, startError(why, lastLine(p.stderr.Text()))
}

// startError says why a program could not get ready: type, message, the end of its standard error,
// and its stack (W4).
func startError(fate error, words string) error {
	fault, ok := errors.AsType[*calls.Fault](fate)
	if !ok {
		return fate
	}
	text := fault.Err.Type + ": " + fault.Err.Message
	if words != "" {
		text += ": " + words
	}
	if stack := strings.TrimSpace(fault.Err.Stack); stack != "" && stack != words {
		text += "\n" + stack
	}
	return errors.New(text)
}
