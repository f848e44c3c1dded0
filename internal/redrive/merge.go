package redrive

import (
	"context"
	"hash/crc32"
	"io"

	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// mergeBuffer is how many bytes of a file are written at once.
const mergeBuffer = 1 << 20

// maxManifest is how many entries a manifest of a merged state has at most.
const maxManifest = 1000

// merger merges the new outcomes of items into the parts of a completed job, and writes the manifests of
// the merged state.
type merger struct {
	dir      store.Dir
	ref      wire.Ref // of the redrive; its sources are those of the merged state
	outcomes *outcomeReader
	out      mergedOutput
	flatten  bool // the results of an item are any number of lines

	entries []wire.Entry // of the next manifest
	heads   []string
	// manifests is how many are written.
	manifests int
	first     *job.FirstError // of those that remain
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
		return m.add(ctx, to)
	}
	to := wire.Entry{Batch: e.Batch, Part: e.Part, OK: e.OK, Failed: e.Failed, Dropped: e.Dropped, Lines: e.Lines, Session: e.Session}
	part, err := m.out.open(ctx, e, to)
	if err != nil {
		return err
	}
	defer part.abort()
	failures := ledger.PartWriter{Dir: m.dir, Key: ledger.ErrorsKey(m.ref.Run, to)}
	defer failures.Abort()
	at := int64(0) // of the old results
	err = ledger.EachErrorLine(ctx, m.dir, e, func(line wire.ErrorLine) error {
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
	return m.add(ctx, to)
}

// item gives a failed item its new outcome. It reports whether an error remains, which is in line then.
func (m *merger) item(line *wire.ErrorLine, to *wire.Entry, part *mergedPart) (remains bool, err error) {
	if !line.IsRecord() { // it stays as it is
		line.At = part.bytes
		return true, nil
	}
	if !line.Never {
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

// add lists an entry of the merged state.
func (m *merger) add(ctx context.Context, e wire.Entry) error {
	m.entries = append(m.entries, e)
	if len(m.entries) < maxManifest {
		return nil
	}
	return m.flush(ctx)
}

// flush writes a manifest that names those before it.
func (m *merger) flush(ctx context.Context) error {
	if len(m.entries) == 0 {
		return nil
	}
	key := m.ref.MergedManifestKey(m.manifests)
	if err := ledger.PutManifest(ctx, m.dir, key, m.ref, 0, m.heads, m.entries, wire.Besides{}); err != nil {
		return err
	}
	m.manifests++
	m.heads, m.entries = []string{key}, m.entries[:0]
	return nil
}
