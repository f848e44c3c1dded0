package activities

import (
	"bufio"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// mergeBuffer is how many bytes of a file are written at once.
const mergeBuffer = 1 << 20

// maxManifest is how many entries a manifest of a merged state has at most.
const maxManifest = 1000

// merger merges what redriven items have come to into the parts of a completed job, and writes the
// manifests of the merged state.
type merger struct {
	acts     *Activities
	dir      store.Dir
	ref      Ref // of the redrive; its sources are those of the merged state
	outcomes *outcomeReader
	out      mergedOutput

	entries []Entry // of the next manifest
	heads   []string
	first   *job.FirstError // of those that remain
}

// mergedOutput takes the results of the merged state.
type mergedOutput interface {
	// pass takes the results of an entry as they are, and returns the entry of the merged state.
	pass(e ownedEntry) (Entry, error)
	// open begins the results of to, which those of e are merged into.
	open(ctx context.Context, e ownedEntry, to Entry) (*mergedPart, error)
	// end fails where what was merged is not what the job had published.
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
	p.sum = crc32.Update(p.sum, castagnoli, data)
	return len(data), nil
}

// copy takes the next n bytes of the results as they were. What is missing shows at the end.
func (p *mergedPart) copy(n int64) error {
	_, err := io.CopyN(p, p.old, n)
	return ignoreEOF(err)
}

// entry merges one entry of the completed job.
func (m *merger) entry(ctx context.Context, e ownedEntry) error {
	if e.Failed == 0 {
		to, err := m.out.pass(e)
		if err != nil {
			return err
		}
		return m.add(ctx, to)
	}
	to := Entry{Batch: e.Batch, Part: newToken(), OK: e.OK, Failed: e.Failed, Dropped: e.Dropped}
	part, err := m.out.open(ctx, e, to)
	if err != nil {
		return err
	}
	defer part.abort()
	failures := partWriter{dir: m.dir, key: errorsKey(m.ref.Run, to)}
	defer failures.abort()
	at := int64(0) // of the old results
	err = eachFailure(ctx, m.dir, e, func(line failureLine) error {
		if err := part.copy(line.At - at); err != nil {
			return err
		}
		at = line.At
		remains, err := m.item(&line, &to, part)
		if err != nil || !remains {
			return err
		}
		data, err := line.encode()
		if err != nil {
			return err
		}
		return failures.write(ctx, data)
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
	if err := failures.commit(); err != nil {
		return err
	}
	to.Bytes, to.Sum = part.bytes, part.sum
	to.ErrBytes, to.ErrSum = failures.bytes, failures.sum
	return m.add(ctx, to)
}

// item gives a failed item the outcome that it has now. It reports whether an error remains, which is
// in line then.
func (m *merger) item(line *failureLine, to *Entry, part *mergedPart) (remains bool, err error) {
	if !line.Never {
		outcome, err := m.outcomes.next()
		switch {
		case err != nil:
			return false, err
		case outcome == nil:
			to.OK++
			to.Failed--
			return false, m.outcomes.copyResult(part)
		case outcome.Dropped:
			to.OK++
			to.Failed--
			to.Dropped++
			return false, nil
		}
		// The record goes on naming the item as the job did.
		line.Failure.Kind, line.Failure.Error = outcome.Failure.Kind, outcome.Failure.Error
		line.Failure.Attempts += outcome.Failure.Attempts
	}
	line.At = part.bytes
	if m.first == nil {
		m.first = firstErrorOf(line.Failure)
	}
	return true, nil
}

// add lists an entry of the merged state.
func (m *merger) add(ctx context.Context, e Entry) error {
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
	result, err := m.acts.Commit(ctx, CommitInput{Ref: m.ref, Previous: m.heads, Entries: m.entries})
	if err != nil {
		return err
	}
	m.heads, m.entries = []string{result.Manifest}, m.entries[:0]
	return nil
}

// mergedParts is an output that keeps its parts: those without failed items stay where they are.
type mergedParts struct {
	dir store.Dir
	run string // of the redrive
}

func (o *mergedParts) pass(e ownedEntry) (Entry, error) {
	e.Run = e.run
	return e.Entry, nil
}

func (o *mergedParts) open(ctx context.Context, e ownedEntry, to Entry) (*mergedPart, error) {
	w := &partWriter{dir: o.dir, key: resultsKey(o.run, to)}
	p := &mergedPart{
		old: strings.NewReader(""), commit: w.commit, abort: w.abort,
		write: func(data []byte) error { return w.write(ctx, data) },
	}
	if e.Bytes == 0 {
		return p, nil
	}
	old, err := openSummed(ctx, o.dir, resultsKey(e.run, e.Entry))
	if err != nil {
		return nil, err
	}
	p.old = old
	p.abort = func() { old.close(); w.abort() }
	p.commit = func() error {
		if err := old.verify(e.Bytes, e.Sum); err != nil {
			return err
		}
		return w.commit()
	}
	return p, nil
}

func (o *mergedParts) end() error { return nil }
func (o *mergedParts) close()     {}

// mergedFile is an output that is one file.
type mergedFile struct {
	before job.Output
	body   *summedReader // of the file as it was
	old    *bufio.Reader
	to     *store.Joining
	buf    []byte
}

// openMerged begins the merged file, of the given size in bytes.
func (f *finish) openMerged(ctx context.Context, size int64) (*mergedFile, error) {
	before := f.in.Redrive.Output
	dir, name, err := f.openTarget(ctx, f.in.Spec.Output)
	if err != nil {
		return nil, err
	}
	body, err := dir.Open(ctx, name, 0, -1)
	if err != nil && store.Permanent(err) {
		return nil, outputChanged(before, "cannot be read ("+err.Error()+")")
	}
	if err != nil {
		return nil, err
	}
	o := &mergedFile{before: before, body: &summedReader{key: name, r: body}, buf: make([]byte, 0, mergeBuffer)}
	o.old = bufio.NewReaderSize(o.body, mergeBuffer)
	o.to, err = store.BeginJoin(ctx, dir, name, store.JoinOptions{Size: size, Scratch: scratch(f.dir, f.in.Ref)})
	if err != nil {
		o.body.close()
		return nil, storeError(job.ErrorOutput, err)
	}
	return o, nil
}

func (o *mergedFile) pass(e ownedEntry) (Entry, error) {
	e.Run = "" // the part is in the file: only its counts matter
	p := &mergedPart{old: o.old, write: o.write}
	return e.Entry, p.copy(e.Bytes)
}

func (o *mergedFile) open(context.Context, ownedEntry, Entry) (*mergedPart, error) {
	return &mergedPart{old: o.old, write: o.write, commit: func() error { return nil }, abort: func() {}}, nil
}

func (o *mergedFile) write(data []byte) error {
	for len(data) > 0 {
		n := min(len(data), cap(o.buf)-len(o.buf))
		o.buf = append(o.buf, data[:n]...)
		data = data[n:]
		if len(o.buf) == cap(o.buf) {
			if err := o.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *mergedFile) flush() error {
	piece := store.Piece{Key: o.body.key, Length: int64(len(o.buf)), Sum: crc32.Checksum(o.buf, castagnoli)}
	err := o.to.AppendHeld(piece, [][]byte{o.buf})
	o.buf = o.buf[:0]
	return storeError(job.ErrorOutput, err)
}

func (o *mergedFile) close() { o.body.close() }

func (o *mergedFile) end() error {
	if _, err := o.old.WriteTo(io.Discard); err != nil {
		return storeError(job.ErrorOutput, fmt.Errorf("reading %s: %w", o.before.Location, err))
	}
	if o.body.bytes != o.before.Bytes || formatSum(o.body.sum) != o.before.Checksum {
		return outputChanged(o.before, fmt.Sprintf("has %d bytes, %s", o.body.bytes, formatSum(o.body.sum)))
	}
	return o.flush()
}
