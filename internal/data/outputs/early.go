package outputs

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"math"
	"path/filepath"
	"sync"

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
	// Parts takes the parts of a run while they are made.
	Parts(run string) PartJoiner
	// Take ends the join of a run and returns what it has joined. It returns the zero value if that
	// is not what the accepted entries begin with. each calls its function with them in order, until
	// that returns false.
	Take(ctx context.Context, run string, each func(context.Context, func(ledger.OwnedEntry) bool) error) (Begun, error)
	// Close gives up the join. Nothing is left behind.
	Close()
}

// PartJoiner takes the parts of a run while they are made.
type PartJoiner interface {
	// Joins reports whether parts are joined, and so not read again soon.
	Joins() bool
	// Hold keeps the results in buf, which becomes the join's until Release, and returns an empty
	// buffer in its place. If there is no room it returns false, and buf stays the caller's.
	Hold(buf []byte) (next []byte, held bool)
	// Release takes held buffers back.
	Release(held [][]byte)
	// Offer hands over a durable part. held is all of its results, or nothing; it becomes the join's.
	Offer(entry wire.Entry, held [][]byte)
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

func (NoJoiner) Begin(wire.Ref, job.Spec) {}
func (NoJoiner) Parts(string) PartJoiner  { return NoJoiner{} }
func (NoJoiner) Close()                   {}
func (NoJoiner) Take(context.Context, string, func(context.Context, func(ledger.OwnedEntry) bool) error) (Begun, error) {
	return Begun{}, nil
}
func (NoJoiner) Joins() bool                    { return false }
func (NoJoiner) Hold(buf []byte) ([]byte, bool) { return buf, false }
func (NoJoiner) Release([][]byte)               {}
func (NoJoiner) Offer(wire.Entry, [][]byte)     {}

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
	waiting map[int64]parcel // made, not yet joined, by their first ordinal
	next    int64            // ordinal that the next part begins with
	holding int              // bytes of memory that parts are held in
	closing bool
	spare   sync.Pool // *[]byte, for results to come

	// Of the joining goroutine, until it has ended.
	joining *store.Joining
	joined  digest
	err     error
}

// parcel is a part, and its results if they are still in memory.
type parcel struct {
	wire.Entry
	held [][]byte
}

// MaxHeld bounds the memory, in bytes, of parts that wait for their turn. Parts for which there is no
// room are read again.
const MaxHeld = 64 << 20

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
	e := &early{run: ref.Run, ended: make(chan struct{}), waiting: map[int64]parcel{}, joined: newDigest()}
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

func (j *earlyJoiner) Parts(run string) PartJoiner {
	if e := j.of(run, false); e != nil {
		return e
	}
	return NoJoiner{}
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

func (e *early) Joins() bool { return true }

func (e *early) Hold(buf []byte) (next []byte, held bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing || e.holding+cap(buf) > MaxHeld {
		return buf, false
	}
	e.holding += cap(buf)
	if spare, ok := e.spare.Get().(*[]byte); ok {
		return (*spare)[:0], true
	}
	return nil, true
}

func (e *early) Release(held [][]byte) {
	if len(held) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, buf := range held {
		e.holding -= cap(buf)
		e.spare.Put(&buf)
	}
}

func (e *early) Offer(entry wire.Entry, held [][]byte) {
	if entry.Count == 0 {
		e.Release(held)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) == maxWaiting {
		e.cancel()
		return
	}
	e.waiting[entry.First] = parcel{entry, held}
	e.changed.Signal()
}

// join joins the parts that are ready, in order, until close is called and no part comes next. After an
// error the joined file is removed at once: the disk may be full.
func (e *early) join() {
	defer trap.OnDone(e.ctx, "ending the early join", nil, e.close)()
	for e.err == nil && e.ctx.Err() == nil {
		ready := e.ready()
		if len(ready) == 0 {
			return
		}
		for e.err == nil && len(ready) > 0 {
			n := e.append(ready)
			ready = ready[n:]
		}
	}
}

// append joins the first part that is held, or the first ones that are not, and returns how many.
func (e *early) append(ready []parcel) (n int) {
	if first := &ready[0]; first.held != nil {
		e.joined.add(e.run, first.Entry)
		e.err = e.joining.AppendHeld(ledger.PieceOf(first.Entry, e.run), first.held)
		e.Release(first.held)
		return 1
	}
	e.err = e.joining.Append(e.ctx, e.dir, func(yield func(store.Piece, error) bool) {
		for ; n < len(ready) && ready[n].held == nil; n++ {
			entry := ready[n].Entry
			e.joined.add(e.run, entry)
			if entry.Bytes > 0 && !yield(ledger.PieceOf(entry, e.run), nil) {
				return
			}
		}
	})
	return n
}

// ready waits for the parts that come next. It returns none after close.
func (e *early) ready() []parcel {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		var ready []parcel
		for {
			p, ok := e.waiting[e.next]
			if !ok {
				break
			}
			ready = append(ready, p)
			delete(e.waiting, e.next)
			e.next += p.Count
		}
		if len(ready) > 0 || e.closing {
			return ready
		}
		e.changed.Wait()
	}
}

// close makes the joining goroutine end once it has joined the parts that are ready.
func (e *early) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closing = true
	e.changed.Signal()
}

// giveUp ends the join and leaves nothing of it behind.
func (e *early) giveUp() {
	e.cancel()
	<-e.ended
	e.joining.Abort()
}
