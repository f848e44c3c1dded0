package inputs

import (
	"context"
	"fmt"

	"github.com/stint-run/stint/internal/data/newfiles"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// newFiles leaves out the inputs that earlier runs of the job's name have completed. Nil: none are.
type newFiles struct {
	list  newfiles.List
	found *newfiles.Found // nil if there is no store
	left  int             // inputs that were left out
}

// newFilesOf reads the list of the files that earlier runs have completed, if the spec wants that.
func (n *Inputs) newFilesOf(ctx context.Context, dir store.Dir, in wire.PlanInput, table *Table) (*newFiles, error) {
	where := in.Spec.NewFilesList()
	if where == "" {
		return nil, nil
	}
	list, err := newfiles.Read(ctx, n.access, where)
	if err != nil {
		return nil, err
	}
	if list.Broken {
		table.notes = append(table.notes, fmt.Sprintf("the list of completed files %s cannot be read: all files are run", where))
	}
	f := &newFiles{list: list}
	if dir != nil {
		f.found, err = newfiles.NewFound(ctx, dir, in.Ref.Sources)
	}
	return f, err
}

// take takes an input that was found. It reports whether that is left out.
func (f *newFiles) take(input store.Input) (old bool, err error) {
	if f == nil {
		return false, nil
	}
	if f.found != nil {
		err = f.found.Add(input)
	}
	if old = f.list.Has(input); old {
		f.left++
	}
	return old, err
}

// mayBeNone returns true if a pattern, directory or prefix may match nothing, since earlier runs have
// completed files.
func (f *newFiles) mayBeNone() bool { return f != nil && f.list.Len() > 0 }

// end completes the table.
func (f *newFiles) end(table *Table) error {
	if f == nil {
		return nil
	}
	table.OldFiles = f.left
	if f.found == nil {
		return nil
	}
	return f.found.End()
}

func (f *newFiles) abort() {
	if f != nil && f.found != nil {
		f.found.Abort()
	}
}
