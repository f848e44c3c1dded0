package redrive

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// outcomeReader reads the outcomes of the items of a redrive, one after the other, from part to part.
type outcomeReader struct {
	ctx  context.Context
	dir  store.Dir
	pull func() (ledger.OwnedEntry, error, bool)
	stop func()
	part *ledger.Outcomes // the current one; nil: none
}

func newOutcomes(ctx context.Context, dir store.Dir, links ledger.Links) *outcomeReader {
	o := &outcomeReader{ctx: ctx, dir: dir}
	o.pull, o.stop = iter.Pull2(func(yield func(ledger.OwnedEntry, error) bool) {
		errEnough := errors.New("no more wanted")
		err := ledger.Entries(ctx, dir, links, func(e ledger.OwnedEntry) error {
			if !yield(e, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(ledger.OwnedEntry{}, err)
		}
	})
	return o
}

func (o *outcomeReader) close() {
	o.stop()
	o.part.Close()
}

// next returns the line of an item that has failed or was dropped. It returns nil for one that has a
// result: copyResult must follow. So it must, as often as the line says, for one that has several or none.
func (o *outcomeReader) next() (*wire.ErrorLine, error) {
	for o.part.Left() == 0 {
		if err := o.endPart(); err != nil {
			return nil, err
		}
		e, err, more := o.pull()
		switch {
		case err != nil:
			return nil, err
		case !more:
			return nil, ledger.Unbalanced("fewer items were run again than had failed")
		}
		if o.part, err = ledger.OpenOutcomes(o.ctx, o.dir, e); err != nil {
			return nil, err
		}
	}
	return o.part.Next()
}

// copyResult copies the next line of the results of the current item.
func (o *outcomeReader) copyResult(w io.Writer) error {
	line, err := o.part.Result()
	if err == nil {
		_, err = w.Write(line)
	}
	return err
}

// endPart returns an error if the current part is not the one that was accepted, or holds more than its
// items.
func (o *outcomeReader) endPart() error {
	err := o.part.End()
	o.part.Close()
	if err != nil {
		return fmt.Errorf("of the items run again: %w", err)
	}
	return nil
}

// end returns an error if there are more outcomes than next has returned.
func (o *outcomeReader) end() error {
	left := o.part.Left()
	if err := o.endPart(); err != nil {
		return err
	}
	_, err, more := o.pull()
	if err == nil && (more || left > 0) {
		err = ledger.Unbalanced("more items were run again than had failed")
	}
	return err
}

// mergeBuffer is how many bytes of a file are written at once.
const mergeBuffer = 1 << 20

// merger merges the new outcomes of items into the parts of a completed job, and writes the manifests of
// the merged state.
type merger struct {
	ledger.Remade
	outcomes *outcomeReader
	again    selection
	out      mergedOutput
	flatten  bool            // the results of an item are any number of lines
	first    *job.FirstError // of those that remain
}

// mergedOutput takes the results of the merged state.
type mergedOutput interface {
	// pass takes the results of an entry as they are, and returns the entry of the merged state.
	pass(e ledger.OwnedEntry) (wire.Entry, error)
	// open begins the results of to, which those of e are merged into.
	open(ctx context.Context, e ledger.OwnedEntry, to wire.Entry) (*mergedPart, error)
	// end returns an error if the merged results are not those that the job had published.
	end() error
	// close frees what was opened to read.
	close()
}

// mergedPart is the results of an entry while they are merged.
type mergedPart struct {
	old    io.Reader
	write  func([]byte) error
	commit func() error // once all is copied
	abort  func()       // after commit it does nothing
	bytes  int64
	sum    uint32
}

func (p *mergedPart) Write(data []byte) (int, error) {
	if err := p.write(data); err != nil {
		return 0, err
	}
	p.bytes += int64(len(data))
	p.sum = crc32.Update(p.sum, wire.CRC32C, data)
	return len(data), nil
}

// copy copies the next n bytes of the results as they were. If bytes are missing, that shows at the end.
func (p *mergedPart) copy(n int64) error {
	_, err := io.CopyN(p, p.old, n)
	return inputs.IgnoreEOF(err)
}

// entry merges one entry of the completed job.
func (m *merger) entry(ctx context.Context, e ledger.OwnedEntry) error {
	if e.Failed == 0 {
		to, err := m.out.pass(e)
		if err != nil {
			return err
		}
		return m.Add(ctx, to)
	}
	to := wire.Entry{Batch: e.Batch, Part: e.Part, OK: e.OK, Failed: e.Failed, Dropped: e.Dropped, Lines: e.Lines, Session: e.Session,
		Reused: e.Reused, Changed: e.Changed, Again: e.Again, Equal: e.Equal, Version: e.Version,
	}
	part, err := m.out.open(ctx, e, to)
	if err != nil {
		return err
	}
	defer part.abort()
	failures := ledger.PartWriter{Dir: m.Dir, Key: ledger.ErrorsKey(m.Ref.Run, to)}
	defer failures.Abort()
	at := int64(0) // of the old results
	err = ledger.EachErrorLine(ctx, m.Dir, e, func(line wire.ErrorLine) error {
		if err := part.copy(line.At - at); err != nil {
			return err
		}
		at = line.At
		remains, err := m.item(&line, &to, part)
		if err != nil || !remains {
			return err
		}
		data, err := line.Encode()
		if err != nil {
			return err
		}
		return failures.Write(ctx, data)
	})
	if err != nil {
		return err
	}
	if err := part.copy(e.Bytes - at); err != nil {
		return err
	}
	if err := part.commit(); err != nil {
		return err
	}
	if err := failures.Commit(); err != nil {
		return err
	}
	to.Bytes, to.Sum = part.bytes, part.sum
	to.ErrBytes, to.ErrSum = failures.Bytes, failures.Sum
	return m.Add(ctx, to)
}

// item gives a failed item its new outcome. It reports whether an error remains, which is in line then.
func (m *merger) item(line *wire.ErrorLine, to *wire.Entry, part *mergedPart) (remains bool, err error) {
	if !line.IsRecord() { // it stays as it is
		line.At = part.bytes
		return true, nil
	}
	if m.again(line) {
		outcome, err := m.outcomes.next()
		switch {
		case err != nil:
			return false, err
		case outcome == nil:
			return false, m.result(1, to, part)
		case outcome.Lines != nil:
			return false, m.result(*outcome.Lines, to, part)
		case outcome.Dropped:
			to.OK++
			to.Failed--
			to.Dropped++
			if to.Session == 0 && outcome.ItemLine() == nil {
				return false, nil
			}
			*line = *outcome // a feed's results are read item by item, and there may be a file of dropped items
			line.At = part.bytes
			return true, nil
		}
		// The record still names the item as the job did.
		line.Failure.Stage, line.Failure.Kind, line.Failure.Error = outcome.Failure.Stage, outcome.Failure.Kind, outcome.Failure.Error
		line.Failure.Partial = outcome.Failure.Partial
		line.Failure.Attempts += outcome.Failure.Attempts
	}
	line.At = part.bytes
	if m.first == nil {
		m.first = ledger.FirstError(line.Failure)
	}
	return true, nil
}

// result copies the results of an item, which are so many lines, and counts the item as ok.
func (m *merger) result(lines int64, to *wire.Entry, part *mergedPart) error {
	to.OK++
	to.Failed--
	if m.flatten {
		to.Lines += lines
	}
	for range lines {
		if err := m.outcomes.copyResult(part); err != nil {
			return err
		}
	}
	return nil
}
