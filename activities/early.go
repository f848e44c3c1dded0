package activities

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"path/filepath"
	"sync"

	"github.com/stint-run/stint/internal/store"
)

// early joins a job's parts while the job still runs, in a process that does all of its work: most
// parts are still held in memory then, and Finish has little left to do.
//
// It goes by what its process has made, not by what the workflow has accepted. So it keeps a digest
// of the parts that it has joined, and Finish goes on from there only where the accepted parts
// begin with exactly these; otherwise Finish joins all of them itself. Nothing else depends on it:
// it may end at any moment, with the process or over any error.
type early struct {
	run    string
	dir    store.Dir
	ctx    context.Context
	cancel context.CancelFunc
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

// parcel is a part, and its results where they are still in memory.
type parcel struct {
	Entry
	held [][]byte
}

// maxHeld bounds the memory in bytes that parts are held in until their turn comes. Those for which
// there is no room are read again.
const maxHeld = 64 << 20

// digest tells one sequence of parts from another.
type digest struct {
	parts int
	sum   hash.Hash64
}

func newDigest() digest { return digest{sum: fnv.New64a()} }

func (d *digest) add(run string, e Entry) {
	d.parts++
	_, _ = fmt.Fprintln(d.sum, run, e.First, e.Count, e.Part, e.Bytes, e.Sum) // a hash takes everything
}

// maxWaiting bounds what is remembered of parts whose predecessor does not come.
const maxWaiting = 10_000

// joinEarly begins to join a job's parts, from its first item on, where its output is a file on the
// file system of its store. Whatever else is in the way of that, Finish will meet it again, and tell.
func (a *Activities) joinEarly(in PlanInput) {
	if !a.opts.Alone || in.Spec.Output == "" || store.IsPrefix(in.Spec.Output) || len(in.Resume) > 0 || in.Redrive != nil {
		return
	}
	e := &early{run: in.Ref.Run, ended: make(chan struct{}), waiting: map[int64]parcel{}, joined: newDigest()}
	e.changed.L = &e.mu
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if err := e.begin(a.opts.Access, in); err != nil {
		e.cancel()
		return
	}
	go e.join()
	a.setEarly(e).giveUp()
}

var errNotLocal = errors.New("the output does not lie on the file system of the store")

func (e *early) begin(access *store.Access, in PlanInput) error {
	var err error
	if e.dir, err = access.Open(e.ctx, in.Ref.Store); err != nil {
		return err
	}
	where, name, err := store.Split(in.Spec.Output)
	if err != nil {
		return err
	}
	to, err := access.Open(e.ctx, where)
	if err != nil {
		return err
	}
	if _, local := to.Local(); !local {
		return errNotLocal
	}
	e.joining, err = store.BeginJoin(e.ctx, to, name, store.JoinOptions{Scratch: scratch(e.dir, in.Ref)})
	if err == nil && !e.joining.InScratch() {
		e.joining.Abort() // after a kill nobody would find it
		err = errNotLocal
	}
	return err
}

// setEarly replaces the join under way and returns the one before.
func (a *Activities) setEarly(e *early) *early {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.early
	a.early = e
	return before
}

// earlyOf returns the join under way of a run; nil where there is none. Whoever takes it ends it:
// nobody else will get it.
func (a *Activities) earlyOf(run string, take bool) *early {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.early
	if e == nil || e.run != run {
		return nil
	}
	if take {
		a.early = nil
	}
	return e
}

// scratch is where a run's unfinished output lies, so that it is removed along with the run's parts.
func scratch(dir store.Dir, ref Ref) string {
	root, local := dir.Local()
	if !local {
		return ""
	}
	return filepath.Join(root, ref.Run)
}

// hold keeps the results in buf, which becomes the join's, until release, and returns a buffer in
// its stead. It returns buf and false where there is no room, or where e is nil.
func (e *early) hold(buf []byte) (next []byte, held bool) {
	if e == nil {
		return buf, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing || e.holding+cap(buf) > maxHeld {
		return buf, false
	}
	e.holding += cap(buf)
	if spare, ok := e.spare.Get().(*[]byte); ok {
		return (*spare)[:0], true
	}
	return nil, true
}

// release takes held buffers back, if there are any.
func (e *early) release(held [][]byte) {
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

// offer tells of a part that is durable. What is held of it, all of its results or nothing, is the
// join's from now on. It does nothing to a nil early.
func (e *early) offer(entry Entry, held [][]byte) {
	if e == nil {
		return
	}
	if entry.Count == 0 {
		e.release(held)
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

// join joins what is there, in order, until it is told to end and no part comes next. What has
// failed is removed at once: the disk may be full.
func (e *early) join() {
	defer close(e.ended)
	defer func() {
		if e.err != nil || e.ctx.Err() != nil {
			e.joining.Abort()
		}
	}()
	defer context.AfterFunc(e.ctx, e.close)()
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
		e.err = e.joining.AppendHeld(first.piece(e.run), first.held)
		e.release(first.held)
		return 1
	}
	e.err = e.joining.Append(e.ctx, e.dir, func(yield func(store.Piece, error) bool) {
		for ; n < len(ready) && ready[n].held == nil; n++ {
			entry := ready[n].Entry
			e.joined.add(e.run, entry)
			if entry.Bytes > 0 && !yield(entry.piece(e.run), nil) {
				return
			}
		}
	})
	return n
}

// ready waits for parts that come next; there are none at the end.
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

// close has the joining goroutine end after what it can join now.
func (e *early) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closing = true
	e.changed.Signal()
}

// giveUp ends the join and leaves nothing of it behind. It does nothing to a nil early.
func (e *early) giveUp() {
	if e == nil {
		return
	}
	e.cancel()
	<-e.ended
	e.joining.Abort()
}

// takeEarly ends the join under way and returns it where the accepted parts begin with those that it
// has joined; nil otherwise.
func (f *finish) takeEarly(ctx context.Context) (*early, error) {
	e := f.acts.earlyOf(f.in.Ref.Run, true)
	if e == nil {
		return nil, nil
	}
	e.close()
	<-e.ended
	accepted := newDigest()
	err := f.eachEntry(ctx, func(entry ownedEntry) bool {
		if accepted.parts < e.joined.parts {
			accepted.add(entry.run, entry.Entry)
		}
		return accepted.parts < e.joined.parts
	})
	fits := e.err == nil && e.ctx.Err() == nil && accepted.parts == e.joined.parts && accepted.sum.Sum64() == e.joined.sum.Sum64()
	if err != nil || !fits {
		e.giveUp()
		return nil, err
	}
	return e, nil
}
