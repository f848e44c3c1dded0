package activities

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/job"
)

// Outcomes of items behind one that has none yet are held back, so that they enter the part in order. While that many
// bytes are held back, or are expected of calls in hand, nothing more is begun.
const (
	heldBack       = 32 << 20  // by a batch
	heldBackBySlot = 128 << 20 // by all batches in a slot
)

// Small calls are cut from blocks of this size, so that little time goes into reading.
const (
	blockItems = 1024
	blockBytes = 256 << 10
)

// writeAt is how many bytes of results go to the sink at once. It may hold on to each piece.
const writeAt = 64 << 10

// block is what is read at once, for one call or several small ones: some MiB for filters.
type block struct {
	chunk    records.Chunk
	convert  calls.Conversion
	items    []calls.Item // of the chunk
	without  []calls.Item // those that have no outcome, if some have one
	toCall   []calls.Item // those without an outcome that are not handed out
	lines    []byte       // the items as lines, if they lie so
	handed   int          // items
	recorded int          // items
	used     int          // assignments that are not done with
	tainted  bool         // a call that was abandoned may still read it
}

// assignment is some items of a block on their way through one lane.
type assignment struct {
	block    *block
	items    []calls.Item
	toCall   []calls.Item // those of them that have no outcome before; a call that is abandoned may still read them
	answer   calls.Answer
	recorded int   // of items
	held     int64 // bytes that it counts for
	gated    bool  // it has to wait until it may begin
	done     bool
	due      time.Time // when it is called again
}

// buffers are blocks and assignments that are not in use.
type buffers struct{ blocks, assignments sync.Pool }

func (b *buffers) block() *block {
	if free, ok := b.blocks.Get().(*block); ok {
		return free
	}
	return &block{}
}

func (b *buffers) assignment() *assignment {
	if free, ok := b.assignments.Get().(*assignment); ok {
		return free
	}
	return &assignment{}
}

// line is the items of an execution in their order: they are read, handed to lanes in assignments, and recorded
// once all before them are. If an assignment ends before its last item, because the batch ends, nothing behind it is
// recorded: what has been done there belongs to the rest of the batch, and is done again.
type line struct {
	e *execution

	mu          sync.Mutex
	changed     sync.Cond
	read        int64 // items
	block       *block
	assignments []*assignment // handed out and not recorded, in order
	undone      int           // of the assignments: in hand, or parked
	parked      []*assignment // of the assignments: wait to be called again
	again       bool          // some have been parked
	watched     bool          // somebody watches for the batch's end
	waker       *time.Timer
	wakeAt      time.Time // when the waker wakes the lanes; zero: it need not
	endBy       time.Time // when it should have ended; zero: it need not
	drained     bool      // no new items are handed out
	lanes       int       // in use
	gated       bool      // an assignment waits until it may begin
	held        int64     // bytes that the assignments count for
	broken      bool      // nothing more is recorded
	failure     error
	over        bool
	closed      chan struct{} // closed when nothing more is handed out
	serial      bool          // each item waits for the outcome of the one before
	reading     bool          // the next item of a serial line is waited for
}

func newLine(e *execution) *line {
	l := &line{e: e, closed: make(chan struct{}), serial: e.in.Clock != nil}
	l.changed.L = &l.mu
	return l
}

// enter counts another lane, which must take assignments until it gets none.
func (l *line) enter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lanes++
}

// open lets the next assignment through the gate.
func (l *line) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gated = false
	l.changed.Broadcast()
}

// fail ends the line: nothing more is handed out, or recorded.
func (l *line) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed(err)
}

func (l *line) failed(err error) {
	if l.failure == nil {
		l.failure = err
	}
	l.e.watch.EndSoon()
	l.close()
}

func (l *line) close() {
	if !l.over {
		l.over = true
		close(l.closed)
		if l.waker != nil {
			l.waker.Stop()
		}
		l.reportLeft()
	}
	l.changed.Broadcast()
}

// wanting waits until another lane would have something to do. It returns false if none will ever.
func (l *line) wanting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.over && !l.available() {
		l.changed.Wait()
	}
	return !l.over
}

// available reports whether an assignment may be handed out now.
func (l *line) available() bool {
	switch {
	case l.over || l.gated:
		return false
	case len(l.parked) > 0 && l.due() != nil:
		return true
	case l.drained:
		return false
	case len(l.assignments) == 0:
		return !l.reading
	}
	return !l.serial && l.hasRoom()
}

// hasRoom reports whether the outcomes of another call may be held back.
func (l *line) hasRoom() bool {
	more := l.e.acts.fit.Bytes(l.callSize().Items)
	return len(l.parked) < maxParked && l.held+more <= heldBack && l.e.slot.Hold(0)+more <= heldBackBySlot
}

// callSize bounds the next call.
func (l *line) callSize() calls.CallSize {
	e := l.e
	size := e.acts.opts.Handler.CallSize()
	size.Items = e.acts.opts.Limiter.Portion(e.stride.portion(e.acts.fit.Items(size.Items)))
	return size
}

// left returns how many items are still to be read. At the end of a whole batch it is one more: that the
// range holds nothing else is seen by reading on.
func (l *line) left() int64 {
	left := l.e.in.Todo() - l.read
	if l.e.in.Todo() == l.e.in.Batch.Count {
		left++
	}
	return left
}

// take returns the next assignment for a lane; nil if there is none for it, which must then end. The last lane waits
// for items that are called again: it keeps the batch's place.
func (l *line) take() *assignment {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		l.look()
		switch {
		case l.over, l.lanes > 1 && (!l.available() || l.e.slot.Crowded()):
			l.lanes--
			l.reportLeft()
			return nil
		case !l.available():
			l.changed.Wait()
			continue
		}
		if len(l.parked) > 0 {
			if p := l.due(); p != nil {
				l.parked = slices.DeleteFunc(l.parked, func(other *assignment) bool { return other == p })
				l.handOut(p)
				return p
			}
		}
		if p := l.fresh(); p != nil {
			return p
		}
	}
}

// fresh hands out new items; nil if there are none, or they have to wait.
func (l *line) fresh() *assignment {
	size := l.callSize()
	if l.block == nil {
		if err := l.next(size); errors.Is(err, io.EOF) {
			l.drained = true
			return nil
		} else if err != nil {
			l.failed(err)
			return nil
		}
	}
	p := l.cut(size.Items)
	l.assignments = append(l.assignments, p)
	if l.e.trials.Any() && l.delayed(p) {
		return nil
	}
	l.undone++
	l.handOut(p)
	return p
}

// handOut notes that an assignment is in hand.
func (l *line) handOut(p *assignment) {
	e := l.e
	p.gated = (e.in.Pace > 0 || e.acts.opts.Limiter != nil) && len(p.toCall) > 0 && !e.watch.Ending.Load()
	l.gated = p.gated
	l.hold(p, e.acts.fit.Bytes(len(p.toCall)))
	l.note()
	l.reportLeft()
}

// reportLeft reports to the slot how many items are not handed out. If none of them can be now, the slot has room for
// others'.
func (l *line) reportLeft() {
	l.noteBegun()
	if l.serial || !l.available() {
		l.e.slot.Left(0)
		return
	}
	left := int64(len(l.parked))
	if !l.drained {
		left += max(0, l.e.in.Todo()-l.read)
	}
	if b := l.block; b != nil {
		left += int64(len(b.items) - b.handed)
	}
	l.e.slot.Left(left)
}

// noteBegun notes whether all items have been handed out, and none has been called again: others may follow it.
func (l *line) noteBegun() {
	l.again = l.again || len(l.parked) > 0
	l.e.allBegun.Store(l.read >= l.e.in.Todo() && l.block == nil && !l.again)
}

// next reads the next block, of one call or several small ones.
func (l *line) next(size calls.CallSize) error {
	e := l.e
	left := l.left()
	if left <= 0 {
		return io.EOF
	}
	if several := size.Items * (blockItems / size.Items); several > size.Items {
		size = calls.CallSize{Items: several, Bytes: min(size.Bytes, blockBytes)}
	}
	items := int(min(int64(size.Items), left))
	b := e.acts.buffers.block()
	if room := int(min(int64(items), e.in.Batch.Count-l.read)); room > cap(b.items) {
		b.items = make([]calls.Item, 0, room)
	}
	err := l.readInto(b, items, size.Bytes)
	if err == nil {
		err = stall.GivenUp(e.ctx)
	}
	if err != nil {
		e.acts.buffers.blocks.Put(b)
		return err
	}
	e.prepare(b, e.in.Batch.First+l.read)
	l.read += int64(len(b.chunk.Items))
	l.block = b
	return nil
}

// readInto reads from the source. One of ticks waits for the next: the line is not locked meanwhile.
func (l *line) readInto(b *block, items, bytes int) error {
	if l.serial {
		l.reading = true
		l.mu.Unlock()
		defer func() {
			l.mu.Lock()
			l.reading = false
		}()
	}
	return l.e.source.Next(&b.chunk, items, bytes)
}

// cut takes items from the block: so many that need a call, and those between and behind them that do not.
func (l *line) cut(items int) *assignment {
	b := l.block
	p := l.e.acts.buffers.assignment()
	*p = assignment{block: b, answer: l.e.liveOf(p.answer)}
	end, n := b.handed, 0
	for ; end < len(b.items) && (n < items || b.items[end].Outcome != nil); end++ {
		if b.items[end].Outcome == nil {
			n++
		}
	}
	p.items, p.toCall = b.items[b.handed:end], b.toCall[:n]
	b.handed, b.toCall = end, b.toCall[n:]
	b.used++
	if end == len(b.items) {
		l.block = nil
	}
	return p
}

// withoutOutcome appends the items that need a call.
func withoutOutcome(into, items []calls.Item) []calls.Item {
	for _, item := range items {
		if item.Outcome == nil {
			into = append(into, item)
		}
	}
	return into
}

// hold has the assignment count for so many bytes from now on.
func (l *line) hold(p *assignment, bytes int64) {
	l.e.slot.Hold(bytes - p.held)
	l.held += bytes - p.held
	p.held = bytes
}

// note notes the items in hand, for heartbeats.
func (l *line) note() {
	e := l.e
	handed := l.read
	if b := l.block; b != nil {
		handed -= int64(len(b.items) - b.handed)
	}
	e.inHand.handed.Store(handed)
	e.inHand.done.Store(e.entry.Count)
}

// recordEarly records the outcomes so far of an assignment that is not done, once it is the next in order.
func (l *line) recordEarly(p *assignment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.assignments[0] != p && !l.broken && l.failure == nil {
		if len(l.parked) > 0 {
			return calls.ErrNotNext // that may take long, and need this lane
		}
		l.changed.Wait()
	}
	if l.broken || l.failure != nil {
		return calls.ErrEnding
	}
	err := l.e.record(p)
	if err != nil {
		l.failed(err)
	}
	return err
}

// finish takes back an assignment, which the caller has run with the result err. It records what can be.
func (l *line) finish(p *assignment, c *calls.Caller, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.done = true
	l.undone--
	l.e.totals.Add(c.Totals)
	l.e.times.Include(&c.Times)
	c.Totals, c.Times = job.Totals{}, calltimes.Timer{}
	p.block.tainted = p.block.tainted || c.Tainted
	c.Tainted = false
	switch ending := errors.Is(err, calls.ErrEnding); {
	case ending && !l.e.watch.Ending.Load():
		l.close() // its slot is lost
	case !ending && err != nil:
		l.failed(err)
	}
	if p.answer.Holes() > 0 {
		l.split(p, l.pieces(p))
	} else {
		l.hold(p, p.answer.Memory())
	}
	l.advance()
	l.look()
	l.note()
	l.reportLeft()
	l.e.report()
	l.changed.Broadcast()
}

// advance records the assignments that are done and next in order.
func (l *line) advance() {
	for len(l.assignments) > 0 && l.assignments[0].done && !l.broken && l.failure == nil {
		p := l.assignments[0]
		if err := l.e.record(p); err != nil {
			l.failed(err)
			return
		}
		if p.recorded < len(p.items) {
			l.broken = true
			l.close()
			return
		}
		l.assignments[0] = nil
		l.assignments = l.assignments[1:]
		l.release(p)
	}
	if l.e.in.OnError == job.OnErrorStop && l.e.firstError != nil {
		l.close()
	}
}

// release gives back the memory of an assignment.
func (l *line) release(p *assignment) {
	l.hold(p, 0)
	b := p.block
	if b.used--; b.used == 0 && l.block != b && !b.tainted {
		l.e.acts.buffers.blocks.Put(b)
	}
	p.block, p.items, p.toCall = nil, nil, nil
	p.answer.Reset()
	l.e.acts.buffers.assignments.Put(p)
}

// end returns once what is recorded is the sink's. It returns the error that has ended the line.
func (l *line) end() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.e
	for _, p := range l.assignments {
		p.answer.Each(func(o calls.Span) {
			if !o.Later && o.Known == nil {
				e.repeated++
			}
		})
	}
	if l.failure != nil {
		return l.failure
	}
	e.stride.finish(e.watch)
	return e.write()
}

// free gives back all memory.
func (l *line) free() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.assignments {
		l.release(p)
	}
	l.assignments = nil
	if b := l.block; b != nil {
		l.block = nil
		if b.used == 0 && !b.tainted {
			l.e.acts.buffers.blocks.Put(b)
		}
	}
}
