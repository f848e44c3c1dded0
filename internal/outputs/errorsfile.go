package outputs

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/job"
)

// WriteErrors writes the file of error records. It returns publish, which makes the file visible, or
// removes one of an earlier run if there are no records; and giveUp, which does nothing after publish.
func (p *Publication) WriteErrors(ctx context.Context) (publish func(context.Context) error, giveUp func(), err error) {
	location := p.Spec.Errors
	if location == "" {
		return func(context.Context) error { return nil }, func() {}, nil
	}
	to, name, err := OpenTarget(ctx, p.Access, location, p.Ref.Perm)
	if err != nil {
		return nil, nil, err
	}
	p.Errors = ledger.ErrorsFile{}
	none := func(ctx context.Context) error { return to.Delete(ctx, name) }
	if p.Books.ErrBytes == 0 {
		return none, func() {}, nil
	}
	w, err := to.Create(ctx, name)
	if err != nil {
		return nil, nil, ledger.StoreError(job.ErrorOutput, err)
	}
	if err := ledger.CopyErrors(ctx, p.Dir, p.Links, io.MultiWriter(w, &p.Errors)); err != nil {
		w.Abort()
		return nil, nil, err
	}
	if p.Errors.Bytes == 0 { // the lines only say which items have no result
		w.Abort()
		return none, func() {}, nil
	}
	p.Output.Errors = location
	return func(context.Context) error { return w.Commit() }, w.Abort, nil
}

// errorsMatch reports whether the file of error records is the one that DONE describes, byte for byte. See
// [Publication.Matches] for the error.
func (p *Publication) errorsMatch(ctx context.Context, d *ledger.Done) (bool, error) {
	if p.Spec.Errors == "" {
		return true, nil
	}
	to, name, err := OpenTarget(ctx, p.Access, p.Spec.Errors, p.Ref.Perm)
	if err != nil {
		return false, err
	}
	sum, bytes, err := ledger.Checksum(ctx, to, name, io.Discard)
	if errors.Is(err, fs.ErrNotExist) {
		return d.Output.Errors == "", nil
	}
	same := d.Output.Errors == p.Spec.Errors && ledger.ErrorsFile{Bytes: bytes, Sum: sum} == d.Errors
	return same, ledger.StoreError(job.ErrorOutput, err)
}

// RestoreErrors publishes the file of error records again, unless it is the one that DONE describes: DONE
// is written before it, and an output that matches DONE may be that of an earlier run. The records are in
// the parts.
func (p *Publication) RestoreErrors(ctx context.Context, d *ledger.Done) error {
	p.Output, p.Errors = d.Output, d.Errors
	if same, err := p.errorsMatch(ctx, d); err != nil || same {
		return err
	}
	p.Output.Errors = ""
	publish, giveUp, err := p.WriteErrors(ctx)
	if err != nil {
		return err
	}
	defer giveUp()
	return p.Ref.WhileCurrent(ctx, p.Dir, publish)
}

// PublishErrors publishes the error records of a job that is not complete, while the store names its run as the current
// one. It returns where they are; empty: there are none.
func (p *Publication) PublishErrors(ctx context.Context) (location string, err error) {
	p.Books = ledger.Books{}
	err = ledger.Entries(ctx, p.Dir, p.Links, func(e ledger.OwnedEntry) error {
		p.Books.ErrBytes += e.ErrBytes
		return nil
	})
	if err != nil {
		return "", ledger.StoreError(job.ErrorOutput, err)
	}
	publish, giveUp, err := p.WriteErrors(ctx)
	if err != nil {
		return "", err
	}
	defer giveUp()
	return p.Output.Errors, p.Ref.WhileCurrent(ctx, p.Dir, publish)
}
