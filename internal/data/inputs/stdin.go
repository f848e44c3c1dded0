package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// stdinBlock is how many bytes of the standard input are read at once.
const stdinBlock = 256 << 10

// stdinReader reads the standard input in its own goroutine, so that waiting for it can be
// cancelled. The goroutine ends with the input, or after close with its next read.
type stdinReader struct {
	blocks chan []byte
	err    error // set before blocks is closed
	rest   []byte

	once sync.Once
	done chan struct{}
}

// errClosing ends a read of an input that close has given up. Another process cannot continue it.
var errClosing = errors.New("the process that reads the standard input is about to end")

// errLater ends a read of an input that is still being written: nothing more has come in time.
var errLater = errors.New("nothing more has come yet")

// gathering bounds how long a page waits for an input that is still being written: for the first byte without an end,
// and then until flush is over. Nil waits without an end, and takes what comes first.
type gathering struct {
	flush  time.Duration
	until  time.Time     // zero: nothing has come yet
	waited time.Duration // so far
}

// begin notes that something has come.
func (g *gathering) begin() {
	if g.until.IsZero() {
		g.until = time.Now().Add(g.flush)
	}
}

// over reports whether the time is.
func (g *gathering) over() bool { return !g.until.IsZero() && !time.Now().Before(g.until) }

func readStdin(r io.Reader) *stdinReader {
	s := &stdinReader{blocks: make(chan []byte, 2), done: make(chan struct{})}
	go func() {
		defer close(s.blocks)
		s.err = trap.Call("reading the standard input", func() error { return s.pump(r) })
	}()
	return s
}

// pump reads the input to its end, and returns why it has ended.
func (s *stdinReader) pump(r io.Reader) error {
	for {
		block := make([]byte, stdinBlock)
		n, err := r.Read(block)
		if n > 0 {
			select {
			case s.blocks <- block[:n]:
			case <-s.done:
				return errClosing
			}
		}
		if err != nil {
			return err
		}
	}
}

func (s *stdinReader) close() { s.once.Do(func() { close(s.done) }) }

func (s *stdinReader) Read(p []byte) (int, error) { return s.read(context.Background(), p, nil) }

// read reads what has come. It waits for something until later, if that is not nil, and returns errLater then.
func (s *stdinReader) read(ctx context.Context, p []byte, later <-chan time.Time) (int, error) {
	if len(s.rest) == 0 {
		select {
		case block, ok := <-s.blocks:
			if !ok {
				return 0, s.err
			}
			s.rest = block
		case <-later:
			return 0, errLater
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

var (
	errNoStdin    = errors.New("the standard input can be read only by `stint run`: name a file or a bucket URL")
	errStdinOnce  = errors.New("the standard input can be read only once, and a part of it has been read: start the job anew with --fresh")
	errStdinTwice = errors.New("the standard input is named twice: name \"-\" once")
	errStdinGone  = errors.New("the process that read the standard input has ended before it had read all of it: start the job anew with --fresh")
)

// stdinSpool copies the standard input into the store. It belongs to the process, not to an attempt at
// planning: bytes that this process has taken from the input are in memory until they are in the copy,
// so that a new planner continues there. A copy of another process is never continued, because nobody
// knows what that process has taken.
type stdinSpool struct {
	dir    store.Dir
	ref    wire.Ref // the run whose input it is
	prefix string
	source wire.Source
	reader *stdinReader

	turn    chan struct{} // holds one element while an attempt copies
	pending []byte        // of the chunk next: what is durable, and what has been read since
	stored  int           // how many of these bytes are durable
	ended   bool          // nothing is left to read
	next    int64         // the chunk that is not full
	done    bool          // the end mark is written
}

// giveStdin gives the standard input to a source of a run that lists its sources. Without a store
// nothing is spooled.
func (n *Inputs) giveStdin(ctx context.Context, dir store.Dir, ref wire.Ref, s *wire.Source) error {
	if dir == nil {
		return nil
	}
	if n.standard == nil {
		return ledger.Permanent(job.ErrorInput, errNoStdin)
	}
	if reserved, ok := n.standard.(*Reserved); ok {
		if err := reserved.await(ctx, ref.Run); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stdin == nil {
		n.stdin = &stdinSpool{dir: dir, ref: ref, prefix: ledger.NewStdinKey(ref), source: *s, reader: readStdin(n.standard), turn: make(chan struct{}, 1)}
	}
	if n.stdin.ref.Run != ref.Run || n.stdin.ref.Store != ref.Store {
		return ledger.Permanent(job.ErrorInput, errStdinOnce)
	}
	s.Spool = n.stdin.prefix
	return nil
}

// takeStdin returns the standard input to the first caller, who does not spool it.
func (n *Inputs) takeStdin() (io.Reader, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.standard == nil:
		return nil, ledger.Permanent(job.ErrorInput, errNoStdin)
	case n.stdin != nil:
		return nil, ledger.Permanent(job.ErrorInput, errStdinOnce)
	}
	n.stdin = &stdinSpool{reader: readStdin(n.standard)}
	return n.stdin.reader, nil
}

// stdinChunks returns the chunker that fills the copy of a standard input below prefix: from the input of
// this process if the copy is its own.
func (n *Inputs) stdinChunks(dir store.Dir, prefix string) chunker {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stdin != nil && n.stdin.prefix == prefix && n.stdin.dir.Location() == dir.Location() {
		return n.stdin
	}
	return &foreignStdin{dir: dir, prefix: prefix}
}

func (s *stdinSpool) reach(ctx context.Context, offset int64, in *gathering) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for s.next*SpoolChunk+int64(s.stored) <= offset {
		if s.done {
			return io.EOF
		}
		bound := in
		if in == nil {
			bound = &gathering{} // anew for each piece
		}
		if err := s.copyOn(ctx, bound); err != nil {
			return err
		}
	}
	if in != nil {
		in.begin()
	}
	return nil
}

// close does nothing: the copy outlives the planner, so that the next attempt continues it.
func (s *stdinSpool) close() {}

// copyOn makes durable what comes next, and the end mark after all of it.
func (s *stdinSpool) copyOn(ctx context.Context, in *gathering) error {
	if err := s.fill(ctx, in); err != nil {
		return err
	}
	if err := checkCopy(&s.source, s.dir, s.next*SpoolChunk+int64(len(s.pending))); err != nil {
		return err
	}
	if len(s.pending) > s.stored {
		if err := store.Extend(ctx, s.dir, SpoolKey(s.prefix, s.next), s.pending, s.stored); err != nil {
			return ledger.StoreError(job.ErrorOutput, err)
		}
		s.stored = len(s.pending)
	}
	if int64(s.stored) == SpoolChunk {
		s.next++
		s.pending, s.stored = s.pending[:0], 0
	}
	if s.ended {
		chunks := s.next
		if s.stored > 0 {
			chunks++
		}
		if err := s.dir.Put(ctx, spoolEnd(s.prefix), fmt.Appendf(nil, "%d", chunks)); err != nil {
			return ledger.StoreError(job.ErrorOutput, err)
		}
		s.pending, s.done = nil, true
	}
	return nil
}

// fill reads until pending is a whole chunk, the input ends, or it is time to make do with what has come.
func (s *stdinSpool) fill(ctx context.Context, in *gathering) error {
	if len(s.pending) > s.stored { // an attempt has left it
		in.begin()
	}
	var later <-chan time.Time // nil until something has come
	for !s.ended && int64(len(s.pending)) < SpoolChunk {
		if in.over() {
			return s.late()
		}
		if later == nil && !in.until.IsZero() {
			timer := time.NewTimer(time.Until(in.until))
			defer timer.Stop()
			later = timer.C
		}
		s.pending = slices.Grow(s.pending, int(min(stdinBlock, SpoolChunk-int64(len(s.pending)))))
		room := s.pending[len(s.pending):min(int64(cap(s.pending)), SpoolChunk)]
		began := time.Now()
		n, err := s.reader.read(ctx, room, later)
		in.waited += time.Since(began)
		s.pending = s.pending[:len(s.pending)+n]
		switch {
		case err == io.EOF:
			s.ended = true
		case errors.Is(err, errLater):
			return s.late()
		case errors.Is(err, errClosing):
			return err
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return ledger.Permanent(job.ErrorInput, fmt.Errorf("reading the standard input: %w", err))
		default:
			in.begin()
		}
	}
	return nil
}

// late returns errLater unless something has come that is not durable.
func (s *stdinSpool) late() error {
	if len(s.pending) > s.stored {
		return nil
	}
	return errLater
}

// foreignStdin is the copy of a standard input that another process has made.
type foreignStdin struct {
	dir      store.Dir
	prefix   string
	complete bool
}

func (s *foreignStdin) reach(ctx context.Context, offset int64, _ *gathering) error {
	if !s.complete {
		complete, err := spoolComplete(ctx, s.dir, s.prefix)
		if err != nil {
			return err
		}
		if !complete {
			return ledger.Permanent(job.ErrorInput, errStdinGone)
		}
		s.complete = true
	}
	err := within(ctx, s.dir, s.prefix, offset)
	if errors.Is(err, fs.ErrNotExist) {
		return io.EOF
	}
	return err
}

func (s *foreignStdin) close() {}

// StdinComplete reports whether a job has read its standard input to the end, so that it can continue
// without it. A job none of whose pages has been accepted cannot: it would list its sources anew.
func StdinComplete(ctx context.Context, access ledger.Access, report job.Report) (bool, error) {
	dir, tables, err := New(access, nil).acceptedTables(ctx, report)
	if err != nil {
		return false, err
	}
	found := false
	for _, table := range tables {
		for i := range table.Sources {
			s := &table.Sources[i]
			if s.URL != stdinName {
				continue
			}
			if complete, err := spoolComplete(ctx, dir, s.Spool); err != nil || !complete {
				return false, err
			}
			found = true
		}
	}
	return found, nil
}

// Unchanged returns an error if an input of a job is not what it was when the job was planned, or is gone, or cannot be
// looked at.
func Unchanged(ctx context.Context, access ledger.Access, report job.Report) error {
	n := New(access, nil)
	_, tables, err := n.acceptedTables(ctx, report)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if err := n.allUnchanged(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

// acceptedTables returns the job's store and the source table that its manifests name, or else all that the run has
// written, one of which was accepted.
func (n *Inputs) acceptedTables(ctx context.Context, report job.Report) (store.Dir, []*Table, error) {
	dir, err := n.access.Open(ctx, report.Store)
	if err != nil {
		return nil, nil, err
	}
	var keys []string
	if len(report.Manifests) > 0 {
		head, err := ledger.ReadHead(ctx, dir, report.Manifests[0])
		if err != nil {
			return nil, nil, err
		}
		keys = []string{head.Sources}
	} else if report.Planned > 0 || report.PlanDone {
		for info, err := range dir.List(ctx, report.Run+"/sources-") {
			if err != nil {
				return nil, nil, err
			}
			keys = append(keys, info.Key)
		}
	}
	tables := make([]*Table, len(keys))
	for i, key := range keys {
		if tables[i], err = n.Table(ctx, dir, key); err != nil {
			return nil, nil, err
		}
	}
	return dir, tables, nil
}
