package inputs

import (
	"bytes"
	"context"
	"io"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// namesURL stands for the source of items that are the names of files.
const namesURL = "the names of the inputs"

// nameList is the source of a job whose items are the names of its inputs. They are written down once, when the job is
// planned: what comes to a directory later changes nothing.
type nameList struct {
	source wire.Source
	copy   *SpoolWriter
	held   *bytes.Buffer // in place of a copy, if there is no store
	buf    []byte
}

func newNameList(ctx context.Context, dir store.Dir, in wire.PlanInput) *nameList {
	l := &nameList{source: wire.Source{
		URL: namesURL, Own: true, Spool: ledger.SpoolKey(in.Ref.Sources, 0),
		Shape: wire.Shape{Format: records.Text0, MaxItem: int(in.Spec.MaxItem)},
	}}
	if dir == nil {
		l.held = &bytes.Buffer{}
	} else {
		l.copy = NewSpoolWriter(ctx, dir, l.source.Spool)
	}
	return l
}

// add adds a name.
func (l *nameList) add(name string) error {
	l.buf = append(append(l.buf[:0], name...), 0)
	l.source.Size += int64(len(l.buf))
	if l.copy == nil {
		l.held.Write(l.buf)
		return nil
	}
	return l.copy.Write(l.buf)
}

// end makes the list the table's only source.
func (l *nameList) end(t *Table) error {
	t.Sources = []wire.Source{l.source}
	if l.copy == nil {
		t.names = l.held.Bytes()
		return nil
	}
	return l.copy.End()
}

func (l *nameList) abort() {
	if l.copy != nil {
		l.copy.Abort()
	}
}

// openNames reads the names of a table that was made without a store.
func (t *Table) openNames(offset int64) io.ReadCloser {
	return io.NopCloser(bytes.NewReader(t.names[offset:]))
}
