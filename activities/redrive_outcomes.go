package activities

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// summedReader reads an object of a part and knows what it has read of it.
type summedReader struct {
	key   string
	r     io.ReadCloser
	bytes int64
	sum   uint32
	err   error
}

func openSummed(ctx context.Context, dir store.Dir, key string) (*summedReader, error) {
	r, err := dir.Open(ctx, key, 0, -1)
	if err != nil {
		return nil, verified(key, 0, 0, 0, 0, err)
	}
	return &summedReader{key: key, r: r}, nil
}

func (s *summedReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.bytes += int64(n)
	s.sum = crc32.Update(s.sum, castagnoli, p[:n])
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// verify fails where the object, read to its end, is not what was accepted.
func (s *summedReader) verify(bytes int64, sum uint32) error {
	return verified(s.key, s.bytes, bytes, s.sum, sum, s.err)
}

// broken is the error of an object in which something else was found than must be there.
func (s *summedReader) broken(err error) error {
	if s.err != nil {
		return storeError(job.ErrorCorrupt, fmt.Errorf("reading part %s: %w", s.key, s.err))
	}
	return permanent(job.ErrorCorrupt, fmt.Errorf("reading part %s: %w", s.key, err))
}

func (s *summedReader) close() { _ = s.r.Close() } // only read from

// failureReader reads the lines of a part's errors; nil reads none.
type failureReader struct {
	*summedReader
	dec   *json.Decoder
	entry Entry
}

func openFailures(ctx context.Context, dir store.Dir, e ownedEntry) (*failureReader, error) {
	if e.ErrBytes == 0 {
		return nil, nil
	}
	s, err := openSummed(ctx, dir, errorsKey(e.run, e.Entry))
	if err != nil {
		return nil, err
	}
	return &failureReader{summedReader: s, dec: json.NewDecoder(bufio.NewReader(s)), entry: e.Entry}, nil
}

// next returns the next line, or nil after the last one.
func (r *failureReader) next() (*failureLine, error) {
	if r == nil {
		return nil, nil
	}
	var line failureLine
	err := r.dec.Decode(&line)
	switch {
	case err == io.EOF:
		return nil, r.verify(r.entry.ErrBytes, r.entry.ErrSum)
	case err != nil:
		return nil, r.broken(err)
	}
	return &line, nil
}

func (r *failureReader) close() {
	if r != nil {
		r.summedReader.close()
	}
}

// eachFailure gives the lines of a part's errors to fn.
func eachFailure(ctx context.Context, dir store.Dir, e ownedEntry, fn func(failureLine) error) error {
	r, err := openFailures(ctx, dir, e)
	if err != nil {
		return err
	}
	defer r.close()
	for {
		line, err := r.next()
		if err != nil || line == nil {
			return err
		}
		if err := fn(*line); err != nil {
			return err
		}
	}
}

// outcomeReader gives what the items of a redrive have come to, one after the other. A part's results and
// the lines of its errors are in the order of its items; a line comes before the result that begins
// where the line's would have begun, since no result is empty.
type outcomeReader struct {
	ctx  context.Context
	dir  store.Dir
	pull func() (ownedEntry, error, bool)
	stop func()

	entry    ownedEntry // in hand
	left     int64      // of its items
	at       int64      // of its results
	body     *summedReader
	results  *bufio.Reader
	failures *failureReader
	failure  *failureLine // the next one; nil: none
}

func newOutcomes(ctx context.Context, dir store.Dir, links []link) *outcomeReader {
	o := &outcomeReader{ctx: ctx, dir: dir}
	o.pull, o.stop = iter.Pull2(func(yield func(ownedEntry, error) bool) {
		errEnough := errors.New("no more wanted")
		err := entries(ctx, dir, links, func(e ownedEntry) error {
			if !yield(e, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(ownedEntry{}, err)
		}
	})
	return o
}

func (o *outcomeReader) close() {
	o.stop()
	o.closePart()
}

func (o *outcomeReader) closePart() {
	o.failures.close()
	if o.body != nil {
		o.body.close()
	}
	o.failures, o.body, o.results = nil, nil, nil
}

// next returns the line of an item that has failed or was dropped. It returns nil for one that has a
// result: copyResult must follow.
func (o *outcomeReader) next() (*failureLine, error) {
	for o.left == 0 {
		if err := o.endPart(); err != nil {
			return nil, err
		}
		more, err := o.nextPart()
		if err != nil {
			return nil, err
		}
		if !more {
			return nil, unbalanced("fewer items were run again than had failed")
		}
	}
	o.left--
	line := o.failure
	if line == nil || line.At != o.at {
		return nil, nil
	}
	var err error
	o.failure, err = o.failures.next()
	return line, err
}

// copyResult copies the result of the item in hand.
func (o *outcomeReader) copyResult(w io.Writer) error {
	if o.results == nil {
		return unbalanced("the part with items %d to %d of those run again has too few results", o.entry.First, o.entry.End()-1)
	}
	for {
		piece, err := o.results.ReadSlice('\n')
		o.at += int64(len(piece))
		if err != nil && err != bufio.ErrBufferFull {
			return o.body.broken(err)
		}
		if _, err := w.Write(piece); err != nil {
			return err
		}
		if err == nil {
			return nil
		}
	}
}

// nextPart goes on to the next part; there may be none.
func (o *outcomeReader) nextPart() (more bool, err error) {
	var ok bool
	if o.entry, err, ok = o.pull(); err != nil || !ok {
		return false, err
	}
	o.left, o.at = o.entry.Count, 0
	if o.failures, err = openFailures(o.ctx, o.dir, o.entry); err != nil {
		return false, err
	}
	if o.failure, err = o.failures.next(); err != nil || o.entry.Bytes == 0 {
		return true, err
	}
	if o.body, err = openSummed(o.ctx, o.dir, resultsKey(o.entry.run, o.entry.Entry)); err != nil {
		return false, err
	}
	o.results = bufio.NewReaderSize(o.body, 64<<10)
	return true, nil
}

// endPart fails where the part in hand is not what was accepted, or holds more than its items.
func (o *outcomeReader) endPart() error {
	defer o.closePart()
	if o.failure != nil {
		return unbalanced("the part with items %d to %d of those run again has too many errors", o.entry.First, o.entry.End()-1)
	}
	if o.body == nil {
		return nil
	}
	if _, err := o.results.WriteTo(io.Discard); err != nil {
		return o.body.broken(err)
	}
	if o.at != o.entry.Bytes {
		return unbalanced("the part with items %d to %d of those run again has too many results", o.entry.First, o.entry.End()-1)
	}
	return o.body.verify(o.entry.Bytes, o.entry.Sum)
}

// end fails where there are more outcomes than have been asked for.
func (o *outcomeReader) end() error {
	if err := o.endPart(); err != nil {
		return err
	}
	e, err, more := o.pull()
	if err == nil && (more || o.left > 0) {
		err = unbalanced("more items were run again than had failed, from %d on", e.End()-o.left)
	}
	return err
}
