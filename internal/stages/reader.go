package stages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/internal/store"
)

// Settled is the error of an item that an earlier stage has settled: it has failed, or it was dropped.
type Settled struct {
	// Line is that of the error; nil: the item was dropped.
	Line *ledger.ErrorLine
}

// Error says what has become of the item.
func (s *Settled) Error() string {
	if s.Line == nil {
		return "an earlier stage has dropped the item"
	}
	return "the item has failed in an earlier stage: " + s.Line.Failure.Error.Error()
}

// reader reads a parcel's lines, from the first item of a batch on.
type reader struct {
	batch    protocol.Batch
	body     *ledger.SummedReader
	lines    *bufio.Reader
	long     []byte // a line that is longer than the buffer of lines
	failures *ledger.ErrorReader
	failure  *ledger.ErrorLine // the next one; nil: none
	ordinal  int64             // of the next line
}

// readBuffer is how many bytes are read at once.
const readBuffer = 256 << 10

func openReader(ctx context.Context, dir store.Dir, batch protocol.Batch) (*reader, error) {
	p := batch.From
	e := ledger.OwnedEntry{Owner: p.Run, Entry: ledger.Entry{
		Batch: protocol.Batch{First: p.First, Count: p.Count}, Part: p.Part,
		Bytes: p.Bytes, Sum: p.Sum, ErrBytes: p.ErrBytes, ErrSum: p.ErrSum,
	}}
	body, err := ledger.OpenSummed(ctx, dir, ledger.ResultsKey(p.Run, e.Entry))
	if err != nil {
		return nil, err
	}
	r := &reader{batch: batch, body: body, lines: bufio.NewReaderSize(body, readBuffer), ordinal: p.First}
	if r.failures, err = ledger.OpenErrors(ctx, dir, e); err == nil {
		r.failure, err = r.failures.Next()
	}
	for err == nil && r.ordinal < batch.First {
		_, _, err = r.next()
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// next returns the next item: its line, which is valid until the next call, or what has settled it.
func (r *reader) next() (line []byte, settled *Settled, err error) {
	line, err = r.line()
	if err != nil {
		return nil, nil, r.broken(err)
	}
	ordinal := r.ordinal
	r.ordinal++
	if len(line) > 0 {
		return line, nil, nil
	}
	settled = &Settled{}
	if r.failure != nil && r.failure.Failure.Item == ordinal {
		settled.Line = r.failure
		if r.failure, err = r.failures.Next(); err != nil {
			return nil, nil, err
		}
	}
	return nil, settled, nil
}

// line returns the next line without its end.
func (r *reader) line() ([]byte, error) {
	line, err := r.lines.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.long = r.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) {
			r.long = append(r.long, line...)
			line, err = r.lines.ReadSlice('\n')
		}
		r.long = append(r.long, line...)
		line = r.long
	}
	if err != nil {
		return nil, err
	}
	return line[:len(line)-1], nil
}

// verify reads the parcel to its end. It returns an error unless that is what was accepted.
func (r *reader) verify() error {
	for r.ordinal < r.batch.From.First+r.batch.From.Count {
		if _, _, err := r.next(); err != nil {
			return err
		}
	}
	more, err := io.Copy(io.Discard, r.lines)
	if err != nil {
		return r.broken(err)
	}
	if err := r.body.Verify(r.batch.From.Bytes, r.batch.From.Sum); err != nil {
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
	if err == io.EOF {
		err = r.body.Verify(r.batch.From.Bytes, r.batch.From.Sum) // says what is missing
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
