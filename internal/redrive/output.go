package redrive

import (
	"bufio"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/outputs"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// mergedParts is an output that keeps its parts: those without failed items stay where they are.
type mergedParts struct {
	dir store.Dir
	run string // of the redrive
}

func (o *mergedParts) pass(e ledger.OwnedEntry) (wire.Entry, error) {
	e.Run = e.Owner
	return e.Entry, nil
}

func (o *mergedParts) open(ctx context.Context, e ledger.OwnedEntry, to wire.Entry) (*mergedPart, error) {
	w := &ledger.PartWriter{Dir: o.dir, Key: ledger.ResultsKey(o.run, to)}
	p := &mergedPart{
		old: strings.NewReader(""), commit: w.Commit, abort: w.Abort,
		write: func(data []byte) error { return w.Write(ctx, data) },
	}
	if e.Bytes == 0 {
		return p, nil
	}
	old, err := ledger.OpenSummed(ctx, o.dir, ledger.ResultsKey(e.Owner, e.Entry))
	if err != nil {
		return nil, err
	}
	p.old = old
	p.abort = func() { old.Close(); w.Abort() }
	p.commit = func() error {
		if err := old.Verify(e.Bytes, e.Sum); err != nil {
			return err
		}
		return w.Commit()
	}
	return p, nil
}

func (o *mergedParts) end() error { return nil }
func (o *mergedParts) close()     {}

// mergedFile is an output that is one file.
type mergedFile struct {
	before job.Output
	body   *ledger.SummedReader // of the file as it was
	plain  io.ReadCloser        // its content
	old    *bufio.Reader
	to     *store.Joining
	buf    []byte
}

// openMerged begins the merged file, of the given size in bytes.
func (f *finisher) openMerged(ctx context.Context, size int64) (*mergedFile, error) {
	before := f.in.Redrive.Output
	dir, name, err := outputs.OpenTarget(ctx, f.Access, f.Spec.Output, f.Ref.Perm)
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
	o := &mergedFile{before: before, body: ledger.NewSummedReader(name, body), buf: make([]byte, 0, mergeBuffer)}
	if o.plain, err = outputs.Decode(name, closing{o.body}); err != nil {
		return nil, o.damaged(err)
	}
	o.old = bufio.NewReaderSize(o, mergeBuffer)
	o.to, err = store.BeginJoin(ctx, dir, name, store.JoinOptions{
		Size: size, Scratch: outputs.Scratch(f.Dir, f.Ref), Encode: outputs.Encoding(name),
	})
	if err != nil {
		o.close()
		return nil, ledger.StoreError(job.ErrorOutput, err)
	}
	return o, nil
}

func (o *mergedFile) pass(e ledger.OwnedEntry) (wire.Entry, error) {
	e.Run = "" // the part is in the file: only its counts matter
	if e.ErrBytes > 0 {
		e.Run = e.Owner // and its notes, which stay where they are
	}
	p := &mergedPart{old: o.old, write: o.write}
	return e.Entry, p.copy(e.Bytes)
}

func (o *mergedFile) open(context.Context, ledger.OwnedEntry, wire.Entry) (*mergedPart, error) {
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
	piece := store.Piece{Key: o.body.Key, Length: int64(len(o.buf)), Sum: crc32.Checksum(o.buf, wire.CRC32C)}
	err := o.to.AppendHeld(piece, [][]byte{o.buf})
	o.buf = o.buf[:0]
	return ledger.StoreError(job.ErrorOutput, err)
}

func (o *mergedFile) close() { _ = o.plain.Close() } // only read from

func (o *mergedFile) end() error {
	if _, err := o.old.WriteTo(io.Discard); err != nil {
		return ledger.StoreError(job.ErrorOutput, store.Doing("reading "+o.before.Location, err))
	}
	if o.body.Bytes != o.before.Bytes || ledger.FormatSum(o.body.Sum) != o.before.Checksum {
		return outputChanged(o.before, fmt.Sprintf("has %d bytes, %s", o.body.Bytes, ledger.FormatSum(o.body.Sum)))
	}
	return o.flush()
}

// closing is a SummedReader whose Close has the usual form.
type closing struct{ *ledger.SummedReader }

func (c closing) Close() error {
	c.SummedReader.Close()
	return nil
}

// Read reads the content of the file as it was.
func (o *mergedFile) Read(p []byte) (int, error) {
	n, err := o.plain.Read(p)
	if err != nil && err != io.EOF {
		err = o.damaged(err)
	}
	return n, err
}

// damaged returns the error of a file whose content cannot be read: that of reading it, or else it is not the one that was published.
func (o *mergedFile) damaged(err error) error {
	if failed := o.body.Failed(); failed != nil {
		return failed
	}
	return outputChanged(o.before, "cannot be read ("+err.Error()+")")
}
