package activities

import (
	"bytes"
	"context"
	"errors"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/reuse"
	"github.com/stint-run/stint/job"
)

// A batch of lines of which none has changed takes the shortest way: its results go from those of the earlier run to the
// part, block by block. If any item is another one than the index has next, nothing of it counts, and the batch takes
// the usual way.

// copying is a batch on the shortest way.
type copying struct {
	e       *execution
	copier  *reuse.Copier
	results []byte // that the sink does not have
	count   int64
	lines   int64 // of the results
}

// mostCopied is how many bytes of results a batch has at most, as far as is known, that takes the shortest way: it has no
// rest.
const mostCopied = 256 << 20

// errOther says that an item is not the one that the index has next.
var errOther = errors.New("an item has changed")

// copyUnchanged has the batch take the shortest way. It reports whether all is done; if not, and without an error, the
// batch is to take the usual one.
func (e *execution) copyUnchanged() (done bool, err error) {
	source, ok := withoutTwins(e.source).(*reusingSource)
	if !ok || !source.last || source.cursor == nil || e.in.Todo() != e.in.Batch.Count || e.notesLines() || e.watch.Ending.Load() ||
		source.From.MeanResult()*e.in.Batch.Count > mostCopied {
		return false, nil
	}
	from, ok := linesOf(source.source).(*inputs.Lines)
	if !ok {
		return false, nil
	}
	from.Sure()
	c := &copying{e: e, results: make([]byte, 0, 2*streamPiece)}
	c.copier = source.cursor.NewCopier(c.take)
	err = c.copy(from)
	switch {
	case err == nil:
		from.Done()
		return true, c.record()
	case errors.Is(err, errOther), errors.Is(err, records.ErrUnlike):
		return false, e.reopen()
	}
	return false, err
}

// copy copies the results of all items.
func (c *copying) copy(from lined) error {
	ctx, cancel := context.WithCancel(c.e.ctx)
	defer cancel()
	var failed error
	text := records.TextLines(c.e.source.Shape())
	err := from.Pass(ctx, func(lines []byte) {
		if failed != nil {
			return
		}
		if failed = c.follow(text, lines); failed != nil {
			cancel()
		}
	}, func(int64, records.Item, error) error { return records.ErrUnlike })
	if failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	switch ok, err := c.copier.Flush(); {
	case err != nil:
		return err
	case !ok || c.count != c.e.in.Batch.Count:
		return errOther
	}
	return c.write()
}

// follow looks up items, which are lines.
func (c *copying) follow(text bool, lines []byte) error {
	if c.e.watch.Ending.Load() {
		return errOther // the usual way has a rest
	}
	for len(lines) > 0 {
		n := bytes.IndexByte(lines, '\n')
		same, err := c.copier.Next(c.e.reuse.hasher.OfLine(text, lines[:n]))
		switch {
		case err != nil:
			return ledger.StoreError(job.ErrorInput, err)
		case !same:
			return errOther
		}
		lines = lines[n+1:]
	}
	return nil
}

// take takes the results of some items.
func (c *copying) take(some reuse.Copied) error {
	c.count += int64(some.Count)
	c.results = append(c.results, some.Results...)
	if c.e.in.Flattens() {
		c.lines += int64(bytes.Count(some.Results, newline))
	}
	if err := c.e.reuse.notes.Copied(c.e.ctx, some); err != nil {
		return err
	}
	if len(c.results) < streamPiece {
		return nil
	}
	return c.write()
}

func (c *copying) write() (err error) {
	if len(c.results) == 0 {
		return nil
	}
	c.results, err = c.e.sink.Results(context.WithoutCancel(c.e.ctx), c.results)
	if cap(c.results) < 2*streamPiece {
		c.results = make([]byte, 0, 2*streamPiece)
	}
	return err
}

// record records the outcomes of all items.
func (c *copying) record() error {
	e := c.e
	e.live.Add(int(c.count), 0)
	e.entry.OK, e.entry.Reused, e.entry.Lines, e.entry.Count = c.count, c.count, c.lines, c.count
	e.inHand.handed.Store(c.count)
	e.inHand.done.Store(c.count)
	e.report()
	return nil
}
