package outputs

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"math"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Joiner joins the parts of a job's output while the job still runs, so that Finish has little left to
// do. It is an optimisation: nothing depends on it, and it may give up at any moment. Its methods may
// be called by many goroutines at once.
//
// [NoJoiner] leaves all joining to Finish; [NewJoiner] is for a process that does all of a job's work.
type Joiner interface {
	// Begin begins to join a run's parts, from its first item on, and gives up any other run's. It
	// does nothing if the output cannot be joined early: Finish meets the reason again, and reports it.
	Begin(ref wire.Ref, spec job.Spec)
	// Part takes the part of a run that begins with an item, while it is made.
	Part(run string, first int64) PartJoin
	// Take ends the join of a run and returns what it has joined. It returns the zero value if that
	// is not what the accepted entries begin with. each calls its function with them in order, until
	// that returns false.
	Take(ctx context.Context, run string, each func(context.Context, func(ledger.OwnedEntry) bool) error) (Begun, error)
	// Close gives up the join. Nothing is left behind.
	Close()
}

// PartJoin takes one part while it is made. One goroutine uses it.
type PartJoin interface {
	// Joins reports whether the part is joined, and so not read again soon.
	Joins() bool
	// Add takes results, which are the join's from then on, and returns an empty buffer in their place.
	Add(lines []byte) (next []byte)
	// Done hands over the part, which is durable.
	Done(entry wire.Entry)
	// Close gives the part up, unless Done was called.
	Close()
}

// Begun is the part of an output file that is joined already; the zero value is nothing.
type Begun struct {
	Joining *store.Joining
	Parts   int    // the accepted parts that it begins with; [AllParts]: all
	End     func() // frees what the join holds, once the file is published or given up
}

// AllParts is for a file that needs no more parts.
const AllParts = math.MaxInt

// NoJoiner leaves all joining to Finish.
type NoJoiner struct{}

func (NoJoiner) Begin(wire.Ref, job.Spec)    {}
func (NoJoiner) Part(string, int64) PartJoin { return notJoined{} }
func (NoJoiner) Close()                      {}
func (NoJoiner) Take(context.Context, string, func(context.Context, func(ledger.OwnedEntry) bool) error) (Begun, error) {
	return Begun{}, nil
}

// notJoined is a part that is not joined while it is made.
type notJoined struct{}

func (notJoined) Joins() bool             { return false }
func (notJoined) Add(lines []byte) []byte { return lines[:0] }
func (notJoined) Done(wire.Entry)         {}
func (notJoined) Close()                  {}

// earlyJoiner joins the parts of one run at a time.
type earlyJoiner struct {
	access ledger.Access

	mu      sync.Mutex
	current *early // nil while no parts are joined
}

// NewJoiner returns a Joiner for a process that does all work of its jobs: most parts are then still in
// memory when they are joined. The caller must close it.
func NewJoiner(access ledger.Access) Joiner { return &earlyJoiner{access: access} }

// early joins the parts of one run.
//
// The part whose turn it is goes into the file while it is made, and is taken back if it fails; what others have is held
// in memory until then, as far as there is room.
//
// It joins the parts that its process has made, whether or not the workflow has accepted them. So it
// keeps a digest of the parts that it has joined, and Finish continues from there only if the accepted
// parts begin with exactly these; otherwise Finish joins all of them itself.
type early struct {
	run    string
	dir    store.Dir
	ctx    context.Context
	cancel context.CancelFunc
	meter  *stall.Meter  // of the joining goroutine
	ended  chan struct{} // closed when the joining goroutine has ended

	mu      sync.Mutex
	changed sync.Cond
	waiting map[int64]parcel    // made, not yet joined, by their first ordinal
	making  map[int64]*joinable // not made yet, by the same
	next    int64               // ordinal that the next part begins with
	busy    bool                // a part is being written
	holding int                 // bytes of memory that parts are held in
	closing bool
	spare   sync.Pool // *[]byte, for results to come

	// Of the joining goroutine, until it has ended.
	joining *store.Joining
	joined  digest
	open    *joinable // has been joined in part; nil: none has
	err     error
}

// joinable is a part that is being made. The lock of its join guards it.
type joinable struct {
	e     *early
	first int64
	lines [][]byte // that are not joined, and held
	lost  bool     // its results are not held: the part is read again
	ended bool
}

// parcel is a part that is made.
type parcel struct {
	wire.Entry
	of *joinable
}

// MaxHeld bounds the memory, in bytes, of parts that wait for their turn: 32 MiB for two processors, at most 256 MiB.
// If a part does not fit, the one whose turn comes last is not held any more, and is read again.
var MaxHeld = min(max(2, runtime.GOMAXPROCS(0)), 16) * (16 << 20)

// roomWait is how long a part waits for room at most.
const roomWait = 2 * time.Second

// digest distinguishes sequences of parts.
type digest struct {
	parts int
	sum   hash.Hash64
}

func newDigest() digest { return digest{sum: fnv.New64a()} }

func (d *digest) add(run string, e wire.Entry) {
	d.parts++
	_, _ = fmt.Fprintln(d.sum, run, e.First, e.Count, e.Part, e.Bytes, e.Sum) // a hash takes everything
}

// maxWaiting bounds how many parts are remembered whose predecessor does not come.
const maxWaiting = 10_000

func (j *earlyJoiner) Begin(ref wire.Ref, spec job.Spec) {
	if !formOf(spec.Output, spec.Split).joined {
		return
	}
	e := &early{run: ref.Run, ended: make(chan struct{}), waiting: map[int64]parcel{}, making: map[int64]*joinable{}, joined: newDigest()}
	e.changed.L = &e.mu
	e.meter = stall.NewMeter()
	e.ctx, e.cancel = context.WithCancel(stall.With(context.Background(), e.meter))
	if err := e.begin(j.access, ref, spec.Output); err != nil {
		e.cancel()
		return
	}
	go func() {
		defer close(e.ended)
		if err := trap.Run("joining parts", e.join); err != nil {
			e.err = err
		}
		if e.err != nil || e.ctx.Err() != nil {
			e.joining.Abort()
		}
		e.close()
	}()
	j.replace(e)
}

func (j *earlyJoiner) Close() { j.replace(nil) }

// replace gives the current join up.
func (j *earlyJoiner) replace(next *early) {
	j.mu.Lock()
	before := j.current
	j.current = next
	j.mu.Unlock()
	if before != nil {
		before.giveUp()
	}
}

func (j *earlyJoiner) Part(run string, first int64) PartJoin {
	if e := j.of(run, false); e != nil {
		return e.part(first)
	}
	return notJoined{}
}

// of returns the join of a run; nil if there is none. If it is taken no other caller gets it, and the
// caller must end it.
func (j *earlyJoiner) of(run string, take bool) *early {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.current
	if e == nil || e.run != run {
		return nil
	}
	if take {
		j.current = nil
	}
	return e
}

func (j *earlyJoiner) Take(ctx context.Context, run string, each func(context.Context, func(ledger.OwnedEntry) bool) error) (Begun, error) {
	e := j.of(run, true)
	if e == nil {
		return Begun{}, nil
	}
	e.close()
	defer stall.Include(ctx, e.meter).Close()
	<-e.ended
	accepted := newDigest()
	err := each(ctx, func(entry ledger.OwnedEntry) bool {
		if accepted.parts < e.joined.parts {
			accepted.add(entry.Owner, entry.Entry)
		}
		return accepted.parts < e.joined.parts
	})
	fits := e.err == nil && e.ctx.Err() == nil && accepted.parts == e.joined.parts && accepted.sum.Sum64() == e.joined.sum.Sum64()
	if err != nil || !fits {
		e.giveUp()
		return Begun{}, err
	}
	return Begun{Joining: e.joining, Parts: e.joined.parts, End: e.cancel}, nil
}

var errNotLocal = errors.New("the output does not lie on the file system of the store")

func (e *early) begin(access ledger.Access, ref wire.Ref, output string) error {
	var err error
	if e.dir, err = ledger.OpenStore(e.ctx, ref, access); err != nil {
		return err
	}
	to, name, err := OpenTarget(e.ctx, access, output, ref.Perm)
	if err != nil {
		return err
	}
	if _, local := to.Local(); !local {
		return errNotLocal
	}
	e.joining, err = store.BeginJoin(e.ctx, to, name, store.JoinOptions{Scratch: Scratch(e.dir, ref), Encode: Encoding(output)})
	if err == nil && !e.joining.InScratch() {
		e.joining.Abort() // after a kill nobody would find the file
		err = errNotLocal
	}
	return err
}

// Scratch returns the directory of a run's unfinished output: it is removed along with the run's parts.
func Scratch(dir store.Dir, ref wire.Ref) string {
	root, local := dir.Local()
	if !local {
		return ""
	}
	return filepath.Join(root, ref.Run)
}

// part begins a part. Of two for the same items, as if a batch is given to another slot, the last one counts.
func (e *early) part(first int64) *joinable {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := &joinable{e: e, first: first, lost: e.closing}
	if before := e.making[first]; before != nil {
		before.lose()
	}
	if !m.lost {
		e.making[first] = m
	}
	return m
}

func (*joinable) Joins() bool { return true }

func (m *joinable) Add(lines []byte) (next []byte) {
	e := m.e
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.holding+cap(lines) > MaxHeld && !m.lost && !e.awaitRoom(m, cap(lines)) {
		e.farthest(m).lose()
	}
	if m.lost || len(lines) == 0 {
		return lines[:0]
	}
	m.lines = append(m.lines, lines)
	e.holding += cap(lines)
	if m.first == e.next {
		e.changed.Broadcast()
	}
	if spare, ok := e.spare.Get().(*[]byte); ok {
		return (*spare)[:0]
	}
	return nil
}

// awaitRoom waits for room while parts are being written: the disk is busy then, and reading a part again would take
// more of its time. It reports whether there is room in time.
func (e *early) awaitRoom(m *joinable, room int) bool {
	until := time.Now().Add(roomWait)
	defer trap.After(roomWait, "ending the wait for room", nil, e.changed.Broadcast).Stop()
	for e.busy && !m.lost && e.holding+room > MaxHeld && time.Now().Before(until) {
		e.changed.Wait()
	}
	return e.holding+room <= MaxHeld
}

// farthest returns the part whose turn comes last, of m and those that are held.
func (e *early) farthest(m *joinable) *joinable {
	last := m
	for _, other := range e.making {
		if len(other.lines) > 0 && other.first > last.first {
			last = other
		}
	}
	for _, other := range e.waiting {
		if len(other.of.lines) > 0 && other.of.first > last.first {
			last = other.of
		}
	}
	return last
}

func (m *joinable) Done(entry wire.Entry) {
	e := m.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if entry.Count == 0 || entry.First < e.next { // nothing, or it comes late
		m.end()
		return
	}
	m.ended = true
	if e.making[m.first] == m {
		delete(e.making, m.first)
	}
	if len(e.waiting) == maxWaiting {
		e.cancel()
		return
	}
	e.waiting[entry.First] = parcel{entry, m}
	e.changed.Broadcast()
}

func (m *joinable) Close() {
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	if !m.ended {
		m.end()
	}
}

// end gives the part up.
func (m *joinable) end() {
	m.ended = true
	m.lose()
}

// lose has the part read again, if it is made.
func (m *joinable) lose() {
	if m.lost {
		return
	}
	m.lost = true
	if m.e.making[m.first] == m {
		delete(m.e.making, m.first)
	}
	m.e.release(m.take())
	m.e.changed.Broadcast()
}

// take returns what is held.
func (m *joinable) take() [][]byte {
	held := m.lines
	m.lines = nil
	return held
}

// release gives room back.
func (e *early) release(held [][]byte) {
	for _, buf := range held {
		e.holding -= cap(buf)
		e.spare.Put(&buf)
	}
	e.changed.Broadcast()
}

// join joins the parts in order, until close is called and none comes next. After an error the joined file is removed
// at once: the disk may be full.
func (e *early) join() {
	defer trap.OnDone(e.ctx, "ending the early join", nil, e.close)()
	for e.err == nil && e.ctx.Err() == nil {
		work := e.ready()
		if work == nil {
			return
		}
		e.err = work()
	}
}

// ready waits for what comes next, and returns what is to be done about it; nil after close.
func (e *early) ready() (work func() error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() { e.busy = work != nil }()
	for {
		p, made := e.waiting[e.next]
		m := e.making[e.next]
		switch {
		case e.open != nil && (e.open.lost || made && p.of != e.open || e.closing && !made):
			e.open = nil
			return e.joining.Undo
		case made && (p.of == e.open || !p.of.lost):
			held := p.of.take()
			delete(e.waiting, e.next)
			e.next += p.Count
			return func() error { return e.appendHeld(p, held) }
		case made:
			return e.append
		case e.closing:
			return nil
		case m != nil && len(m.lines) > 0 && e.joining.Undoes():
			held := m.take()
			return func() error { return e.write(m, held) }
		}
		e.busy = false
		e.changed.Broadcast()
		e.changed.Wait()
	}
}

// write joins some of a part that is being made.
func (e *early) write(m *joinable, held [][]byte) error {
	if e.open == nil {
		e.joining.Mark()
		e.open = m
	}
	for _, lines := range held {
		if err := e.joining.Write(lines); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.release(held)
	return nil
}

// appendHeld joins a part, or what is left of it, from memory.
func (e *early) appendHeld(p parcel, held [][]byte) error {
	e.open = nil
	e.joined.add(e.run, p.Entry)
	err := e.joining.AppendHeld(ledger.PieceOf(p.Entry, e.run), held)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.release(held)
	return err
}

// append joins the parts that come next and are not held.
func (e *early) append() error {
	return e.joining.Append(e.ctx, e.dir, func(yield func(store.Piece, error) bool) {
		for {
			e.mu.Lock()
			p, made := e.waiting[e.next]
			if made = made && p.of.lost; made {
				delete(e.waiting, e.next)
				e.next += p.Count
			}
			e.mu.Unlock()
			if !made {
				return
			}
			e.joined.add(e.run, p.Entry)
			if p.Bytes > 0 && !yield(ledger.PieceOf(p.Entry, e.run), nil) {
				return
			}
		}
	})
}

// close makes the joining goroutine end once it has joined the parts that are ready.
func (e *early) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closing = true
	e.changed.Broadcast()
}

// giveUp ends the join and leaves nothing of it behind.
func (e *early) giveUp() {
	e.cancel()
	<-e.ended
	e.joining.Abort()
}
