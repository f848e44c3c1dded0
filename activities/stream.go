package activities

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/reuse"
	"github.com/stint-run/stint/internal/data/stages"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/job"
)

// A batch of lines for a filter takes a short way, if it can: one call gets all of it. The lines go from the source to
// the filter's standard input, and the answer to the sink, piece by piece: no item and no outcome is taken apart, or
// held. If anything goes wrong, nothing of it counts, and the batch takes the usual way.

const (
	// streamPiece is how many bytes of an answer are taken at once.
	streamPiece = 256 << 10
	// longestLine is how many bytes of an answer may have no line end: a line is looked for in what is held.
	longestLine = 32 << 20
	// maxUnfit and maxUnfitBytes bound what is held of a batch's items that are not in their format.
	maxUnfit      = 10_000
	maxUnfitBytes = 4 << 20
	// mostNoted is how many items a batch has at most whose digests are held until all are done, 16 bytes each.
	mostNoted = 1_000_000
)

// lined are the items of a batch as lines: those of inputs, or what an earlier step of a pipeline has written.
type lined interface {
	// Pass gives the lines to keep, and items that are not in their format to drop: see [records.Sieve.Pass].
	Pass(ctx context.Context, keep records.Keep, drop records.Drop) error
	// Done counts all items as done, which Pass has given.
	Done()
}

// linesOf returns the items of a source as lines, of which it gives none any more; nil if they do not lie so.
func linesOf(from source) lined {
	switch from := from.(type) {
	case *reusingSource:
		if from.cursor == nil {
			return linesOf(from.source)
		}
	case *inputs.Range:
		if l := from.Lines(); l != nil {
			return l
		}
	case *stages.Source:
		if l := from.Lines(); l != nil {
			return l
		}
	}
	return nil
}

// stream is a batch on the short way. Its goroutines are the call's.
type stream struct {
	e  *execution
	in lined

	mu    sync.Mutex
	unfit []unfit // items that are not in their format, in order
	bytes int     // of them

	notes *reuse.Stream // nil: nobody wants them

	// Of the goroutine that feeds the filter.
	fed error // why not all items have been looked at

	// Of the goroutine that takes the answer.
	placed int   // of the unfit
	lines  int64 // line ends so far
	blanks blanks
	length int64 // bytes since the last one
	size   int64 // bytes
	failed error // the sink's
}

// unfit is an item that is not in its format.
type unfit struct {
	index int64 // in the batch
	item  records.Item
	at    int64 // where its result would be
}

var newline = []byte{'\n'}

var (
	errAhead        = errors.New("the filter answers before it is given its lines")
	errTooManyLines = errors.New("the filter answers with more lines than it gets")
	errLongLine     = errors.New("the filter answers with a very long line")
)

// distrust keeps batches from the short way after some have left it, the longer the more do in a row: one bad item in
// each would have all items called twice.
type distrust struct{ wait, next atomic.Int64 }

// maxDistrust is how many batches it lasts at most.
const maxDistrust = 63

func (d *distrust) trusts() bool { return d.wait.Load() == 0 || d.wait.Add(-1) < 0 }

func (d *distrust) learn(good bool) {
	if good {
		d.next.Store(0)
		return
	}
	next := min(2*d.next.Load()+1, maxDistrust)
	d.next.Store(next)
	d.wait.Store(next)
}

// streamed returns the batch's items as lines, if it can take the short way, and the handler; nil if it cannot.
func (e *execution) streamed() (lined, calls.Streamer) {
	in := &e.in
	handler, ok := e.acts.opts.Handler.(calls.Streamer)
	if !ok || !handler.Streams(in.Batch.Count, in.Calls.Timeout) {
		return nil, nil
	}
	if e.reuse != nil && (in.Batch.From != nil || in.Batch.Count > mostNoted) {
		return nil, nil
	}
	if in.Todo() != in.Batch.Count || in.Alone || in.Pace > 0 || e.acts.opts.Limiter != nil || in.Verdict != nil || in.Gathers() || in.Calls.Ruled() ||
		in.Flattens() || e.cuts.apart > 0 || e.trials.Any() || e.watch.Ending.Load() || !e.acts.distrust.trusts() {
		return nil, nil
	}
	return linesOf(e.source), handler
}

// stream has the batch take the short way. It reports whether all is done; if not, and without an error, the batch is to
// take the usual one.
func (e *execution) stream(from lined, handler calls.Streamer, place calls.Place) (done bool, err error) {
	e.slot.Left(0)
	e.inHand.handed.Store(e.in.Batch.Count)
	s := &stream{e: e, in: from}
	if e.reuse != nil && e.reuse.notes != nil {
		s.notes = reuse.NewStream(e.reuse.hasher, e.source.Shape(), e.in.Batch.Count)
	}
	lane := e.watch.Lane()
	defer lane.Close()
	caller := &calls.Caller{
		Handler: handler, Limits: e.in.Calls, Lane: lane, Answer: &calls.Answer{}, Place: place,
		Observer: e.acts.opts.Observer, Job: e.in.Ref.Job, Stage: e.in.StageName(), Hope: e.hope, Brake: &e.acts.brake, Spans: e.traced.Spans(),
	}
	done, err = caller.Stream(s)
	e.totals.Add(caller.Totals)
	e.times.Include(&caller.Times)
	if s.failed != nil { // whatever the call has come to
		done, err = false, s.failed
	}
	if done {
		e.acts.distrust.learn(true)
		return true, s.record()
	}
	e.live.Add(-int(s.lines), 0)
	switch {
	case err == nil:
		e.acts.distrust.learn(false)
	case !errors.Is(err, calls.ErrEnding):
		return false, err
	}
	if again := e.reopen(); again != nil {
		return false, again
	}
	return errors.Is(err, calls.ErrEnding), nil
}

// First returns the ordinal of the batch's first item.
func (s *stream) First() int64 { return s.e.in.Batch.First }

// Len returns how many items the batch has.
func (s *stream) Len() int { return int(s.e.in.Batch.Count) }

// Feed writes the lines of items that are in their format.
func (s *stream) Feed(ctx context.Context, in io.Writer) {
	broken := false
	s.fed = s.in.Pass(ctx, func(lines []byte) {
		if s.notes != nil {
			s.notes.Items(lines)
		}
		if !broken {
			_, err := in.Write(lines)
			broken = err != nil
		}
	}, s.leaveOut)
}

// leaveOut keeps an item that the filter does not get.
func (s *stream) leaveOut(index int64, item records.Item, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += len(item.Raw)
	if len(s.unfit) == maxUnfit || s.bytes > maxUnfitBytes || s.e.in.OnError == job.OnErrorStop || s.e.in.PassesOn() {
		return records.ErrUnlike
	}
	item.Raw, item.Err = slices.Clone(item.Raw), err // it is not looked at again
	s.unfit = append(s.unfit, unfit{index: index, item: item})
	return nil
}

// Take gives the answer to the sink.
func (s *stream) Take(out io.Reader) error {
	buf := make([]byte, 0, streamPiece)
	for {
		n, err := out.Read(buf[len(buf):cap(buf)])
		piece := buf[len(buf) : len(buf)+n]
		buf = buf[:len(buf)+n]
		if fault := s.look(piece); fault != nil {
			return fault
		}
		switch {
		case err == io.EOF || errors.Is(err, os.ErrDeadlineExceeded):
			if s.length > 0 { // the last line has no end
				buf = append(buf, '\n')
				if fault := s.look(buf[len(buf)-1:]); fault != nil {
					return fault
				}
			}
			_, err := s.write(buf)
			return err
		case err != nil:
			return fmt.Errorf("reading the answer: %w", err)
		case cap(buf)-len(buf) >= streamPiece/4:
			continue
		}
		if buf, err = s.write(buf); err != nil {
			return err
		}
	}
}

// write gives lines to the sink, and returns an empty buffer.
func (s *stream) write(lines []byte) ([]byte, error) {
	next, err := s.e.sink.Results(s.e.ctx, lines)
	if err != nil {
		s.failed = err
		return nil, err
	}
	if cap(next) < streamPiece {
		next = make([]byte, 0, streamPiece)
	}
	return next, nil
}

// look counts the lines of the next piece of the answer, and finds where the results of unfit items would be in it. A
// filter has been given what is before a line that it answers, and so these are known by then.
func (s *stream) look(piece []byte) error {
	n := int64(bytes.Count(piece, newline))
	passed, at := int64(0), 0 // lines of the piece, and their length
	s.mu.Lock()
	for ; s.placed < len(s.unfit); s.placed++ {
		u := &s.unfit[s.placed]
		before := u.index - int64(s.placed) - s.lines // lines from here on that are results of items before it
		if before < 0 || before == 0 && s.length > 0 {
			s.mu.Unlock()
			return errAhead
		}
		if before > n {
			break
		}
		at += records.BehindLines(piece[at:], int(before-passed))
		passed, u.at = before, s.size+int64(at)
	}
	s.mu.Unlock()
	s.size += int64(len(piece))
	s.length += int64(len(piece))
	if n > 0 {
		s.lines += n
		s.length = int64(len(piece) - bytes.LastIndexByte(piece, '\n') - 1)
		s.e.live.Add(int(n), 0)
	}
	if s.e.in.PassesOn() {
		s.blanks.count(piece)
	}
	if s.notes != nil {
		s.notes.Results(piece)
	}
	switch {
	case s.lines > s.e.in.Batch.Count:
		return errTooManyLines
	case s.length > longestLine:
		return errLongLine
	}
	return nil
}

// Accept returns a fault unless the answer has a line for each item that the filter was given.
func (s *stream) Accept() error {
	if s.fed != nil {
		return s.fed
	}
	if given := s.e.in.Batch.Count - int64(len(s.unfit)); s.lines != given {
		return calls.LengthFault(int(given), int(s.lines))
	}
	return s.look(nil) // places those behind the last line
}

// record records the outcomes of all items.
func (s *stream) record() error {
	e := s.e
	for i := range s.unfit {
		u := &s.unfit[i]
		o := calls.Span{Fault: calls.InvalidFault(u.item.Err), Tries: 1}
		if err := e.fail(e.in.Batch.First+u.index, e.source.Shape(), &u.item, o, u.at); err != nil {
			return err
		}
	}
	unfit := len(s.unfit)
	e.live.Add(unfit, unfit)
	e.entry.OK += e.in.Batch.Count - int64(unfit)
	e.entry.Dropped += s.blanks.lines
	e.entry.Count = e.in.Batch.Count
	if s.notes != nil {
		if err := s.notes.WriteTo(e.ctx, e.reuse.notes); err != nil {
			return err
		}
	}
	s.in.Done()
	e.inHand.done.Store(e.entry.Count)
	e.report()
	return nil
}
