package stages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// Part is the sink of a step that is not the last. Its results have one line for each item, empty if the item has none,
// so that a line's number identifies its item. One goroutine may use it.
type Part struct {
	open  func() (store.Dir, error)
	run   string
	entry wire.Entry
	held  *wire.Lines // what will be returned inline; nil: it is written to the store
	most  int         // bytes of that

	results ledger.PartWriter
	errors  ledger.PartWriter

	at     int64   // bytes of results, without the empty lines
	gaps   []int64 // where empty lines belong among the results that are still to come, in their order
	padded []byte
}

// NewPart returns the part of an entry of the run. open opens the job's store. A part of up to inline bytes is held in
// memory, and the store is opened only if it gets larger.
func NewPart(run string, e wire.Entry, inline int, open func() (store.Dir, error)) *Part {
	p := &Part{open: open, run: run, entry: e, most: inline}
	if inline > 0 {
		p.held = &wire.Lines{}
	}
	return p
}

// At returns the bytes of results so far, without empty lines.
func (p *Part) At() int64 { return p.at }

// Results writes results, with empty lines between them. It keeps nothing of lines.
func (p *Part) Results(ctx context.Context, lines []byte) (next []byte, err error) {
	p.padded = p.padded[:0]
	left := lines
	for len(p.gaps) > 0 && p.gaps[0] < p.at+int64(len(left)) {
		n := p.gaps[0] - p.at
		p.padded = append(append(p.padded, left[:n]...), '\n')
		left, p.at, p.gaps = left[n:], p.gaps[0], p.gaps[1:]
	}
	p.at += int64(len(left))
	out := lines
	if len(p.padded) > 0 {
		p.padded = append(p.padded, left...)
		out = p.padded
	}
	return lines[:0], p.write(ctx, out, nil)
}

// Note takes a line about an item without a result. An error is kept for the last step; that an item was dropped shows
// by the empty line.
func (p *Part) Note(ctx context.Context, line wire.ErrorLine) error {
	p.gaps = append(p.gaps, line.At)
	if line.Dropped {
		return nil
	}
	data, err := line.Encode()
	if err != nil {
		return err
	}
	return p.write(ctx, nil, data)
}

// write writes results and errors, to memory as long as they fit.
func (p *Part) write(ctx context.Context, results, errs []byte) error {
	ctx = context.WithoutCancel(ctx)
	if h := p.held; h != nil {
		if len(h.Results)+len(h.Errors)+len(results)+len(errs) <= p.most {
			h.Results, h.Errors = append(h.Results, results...), append(h.Errors, errs...)
			return nil
		}
		p.held = nil
		results, errs = append(h.Results, results...), append(h.Errors, errs...)
	}
	if p.results.Dir == nil {
		dir, err := p.open()
		if err != nil {
			return err
		}
		p.results = ledger.PartWriter{Dir: dir, Key: ledger.ResultsKey(p.run, p.entry)}
		p.errors = ledger.PartWriter{Dir: dir, Key: ledger.ErrorsKey(p.run, p.entry)}
	}
	if err := p.results.Write(ctx, results); err != nil {
		return err
	}
	return p.errors.Write(ctx, errs)
}

// Commit makes the part durable, and sets its sizes and checksums in the entry.
func (p *Part) Commit(entry *wire.Entry) error {
	// What is left belongs after the last result.
	if err := p.write(context.Background(), bytes.Repeat([]byte{'\n'}, len(p.gaps)), nil); err != nil {
		return err
	}
	p.gaps = nil
	if h := p.held; h != nil {
		entry.Bytes, entry.Sum = int64(len(h.Results)), crc32.Checksum(h.Results, wire.CRC32C)
		entry.ErrBytes, entry.ErrSum = int64(len(h.Errors)), crc32.Checksum(h.Errors, wire.CRC32C)
		return nil
	}
	if err := errors.Join(p.results.Commit(), p.errors.Commit()); err != nil {
		return err
	}
	entry.Bytes, entry.Sum = p.results.Bytes, p.results.Sum
	entry.ErrBytes, entry.ErrSum = p.errors.Bytes, p.errors.Sum
	return nil
}

// Inline returns the part's lines if the store does not have them; nil: it has.
func (p *Part) Inline() *wire.Lines { return p.held }

// Close discards the part, unless it is committed.
func (p *Part) Close() {
	p.results.Abort()
	p.errors.Abort()
}

// reader reads a part's lines, from the first item of a batch on.
type reader struct {
	part     wire.Part
	body     *ledger.SummedReader
	lines    *ledger.Lines
	failures *ledger.ErrorReader
	failure  *wire.ErrorLine // the next one; nil: none
	ordinal  int64           // of the next line
}

// readBuffer is how many bytes are read at once.
const readBuffer = 256 << 10

func openReader(ctx context.Context, dir store.Dir, batch wire.Batch, p wire.Part) (*reader, error) {
	e := wire.Entry{
		Batch: wire.Batch{First: p.First, Count: p.Count}, Part: p.Token,
		Bytes: p.Bytes, Sum: p.Sum, ErrBytes: p.ErrBytes, ErrSum: p.ErrSum,
	}
	body, err := open(ctx, dir, p, ledger.ResultsKey(p.Run, e))
	if err != nil {
		return nil, err
	}
	r := &reader{part: p, body: body, lines: ledger.NewLines(body, int(min(readBuffer, max(p.Bytes, 1<<10)))), ordinal: p.First}
	if p.ErrBytes > 0 {
		r.failures, err = openErrors(ctx, dir, p, e)
	}
	if err == nil {
		r.failure, err = r.failures.Next()
	}
	for err == nil && r.ordinal < batch.First {
		_, err = r.next()
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// open opens one of a part's two objects, that of its results.
func open(ctx context.Context, dir store.Dir, p wire.Part, key string) (*ledger.SummedReader, error) {
	if p.Inline != nil {
		return ledger.NewSummedReader(key, io.NopCloser(bytes.NewReader(p.Inline.Results))), nil
	}
	return ledger.OpenSummed(ctx, dir, key)
}

// openErrors opens the other one.
func openErrors(ctx context.Context, dir store.Dir, p wire.Part, e wire.Entry) (*ledger.ErrorReader, error) {
	if p.Inline != nil {
		return ledger.NewErrorReader(ledger.NewSummedReader(ledger.ErrorsKey(p.Run, e), io.NopCloser(bytes.NewReader(p.Inline.Errors))), e), nil
	}
	return ledger.OpenErrors(ctx, dir, ledger.OwnedEntry{Owner: p.Run, Entry: e})
}

// next returns what has become of the next item. Its value is valid until the next call.
func (r *reader) next() (o records.Outcome, err error) {
	line, err := r.lines.Next()
	if err != nil {
		return o, r.broken(err)
	}
	line = line[:len(line)-1]
	ordinal := r.ordinal
	r.ordinal++
	if !records.IsBlank(line) { // as in an input of jsonl, a blank line is no item
		return records.Outcome{Value: line}, nil
	}
	o = records.Outcome{Carried: true, Counted: true}
	if r.failure != nil && r.failure.Failure.Item == ordinal {
		o.Line = r.failure
		o.Reused = o.Line.Reused
		if o.Counted = !o.Line.HasOutcome(); o.Counted {
			o.Failure = &o.Line.Failure
		}
		r.failure, err = r.failures.Next()
	}
	return o, err
}

// verify reads the part to its end. It returns an error unless that is what was accepted.
func (r *reader) verify() error {
	for r.ordinal < r.part.First+r.part.Count {
		if _, err := r.next(); err != nil {
			return err
		}
	}
	more, err := io.Copy(io.Discard, r.lines)
	if err != nil {
		return r.broken(err)
	}
	if err := r.body.Verify(r.part.Bytes, r.part.Sum); err != nil {
		return err
	}
	if more > 0 {
		return r.broken(errors.New("it has more lines than items"))
	}
	if r.failure != nil {
		return r.broken(fmt.Errorf("it has an error of item %d, which has a result or is none of its items", r.failure.Failure.Item))
	}
	return nil
}

func (r *reader) broken(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = r.body.Verify(r.part.Bytes, r.part.Sum) // says what is missing
		if err == nil {
			err = errors.New("it has fewer lines than items")
		}
	}
	return r.body.Broken(err)
}

func (r *reader) close() {
	r.failures.Close()
	r.body.Close()
}
