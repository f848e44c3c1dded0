package outputs

import (
	"context"
	"io"

	"github.com/stint-run/stint/internal/data/failures"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// side is a file beside the output: of error records, or of dropped items. It does not exist if it would be empty.
type side struct {
	location string // empty: it is not wanted
	copy     func(ctx context.Context, w io.Writer) error
	content  *wire.SideFile // what is published
	shown    *string        // where, for people
}

func (p *Publication) errorsSide() side {
	return side{p.Spec.Errors, p.copyErrors, &p.Errors, &p.Output.Errors}
}

// copyErrors writes the error records, and groups them.
func (p *Publication) copyErrors(ctx context.Context, w io.Writer) error {
	var groups failures.Groups
	err := ledger.CopyErrors(ctx, p.Dir, p.Links, io.MultiWriter(w, groups.Writer()))
	p.Failures = groups.Largest(failures.MaxReported)
	return err
}

func (p *Publication) droppedSide() side {
	return side{p.Spec.Dropped, func(ctx context.Context, w io.Writer) error {
		return ledger.CopyDropped(ctx, p.Dir, p.Links, w)
	}, &p.Dropped, &p.Output.Dropped}
}

// writeSides writes files beside the output: see writeSide.
func (p *Publication) writeSides(
	ctx context.Context, sides ...side,
) (publish func(context.Context) error, giveUp func(), err error) {
	var written []func(context.Context) error
	var givenUp []func()
	giveUp = func() {
		for _, one := range givenUp {
			one()
		}
	}
	for _, s := range sides {
		publishOne, giveUpOne, err := p.writeSide(ctx, s)
		if err != nil {
			giveUp()
			return nil, nil, err
		}
		written, givenUp = append(written, publishOne), append(givenUp, giveUpOne)
	}
	publish = func(ctx context.Context) error {
		for _, one := range written {
			if err := one(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	return publish, giveUp, nil
}

// writeSide writes a file beside the output. It returns publish, which makes the file visible, or
// removes one of an earlier run if there is nothing for it; and giveUp, which does nothing after publish.
func (p *Publication) writeSide(ctx context.Context, s side) (publish func(context.Context) error, giveUp func(), err error) {
	if s.location == "" {
		return func(context.Context) error { return nil }, func() {}, nil
	}
	to, name, err := OpenTarget(ctx, p.Access, s.location, p.Ref.Perm)
	if err != nil {
		return nil, nil, err
	}
	*s.content, *s.shown = wire.SideFile{}, ""
	none, err := store.Removal(ctx, to, name)
	if err != nil {
		return nil, nil, ledger.StoreError(job.ErrorOutput, err)
	}
	if p.Books.ErrBytes == 0 {
		return none, func() {}, nil
	}
	w, err := store.CreateUnchanged(ctx, to, name)
	if err != nil {
		return nil, nil, ledger.StoreError(job.ErrorOutput, err)
	}
	var lines wire.SideFile // before they are compressed
	err = encode(s.location, io.MultiWriter(w, s.content), func(w io.Writer) error { return s.copy(ctx, io.MultiWriter(w, &lines)) })
	if err != nil {
		w.Abort()
		return nil, nil, err
	}
	if lines.Bytes == 0 {
		*s.content = wire.SideFile{} // the lines that there are say something else
		w.Abort()
		return none, func() {}, nil
	}
	*s.shown = s.location
	return func(context.Context) error { return w.Commit() }, w.Abort, nil
}

// sideMatches reports whether a file beside the output is the one with that content, at the place that is shown, byte
// for byte. See [Publication.Matches] for the error.
func (p *Publication) sideMatches(ctx context.Context, s side, content wire.SideFile, shown string, delivered bool) (bool, error) {
	switch {
	case s.location == "":
		return true, nil
	case p.isSink(s.location):
		return delivered, nil
	}
	to, name, err := OpenTarget(ctx, p.Access, s.location, p.Ref.Perm)
	if err != nil {
		return false, err
	}
	sum, bytes, err := ledger.Checksum(ctx, to, name, io.Discard)
	if missing(to, err) {
		return shown == "", nil
	}
	same := shown == s.location && wire.SideFile{Bytes: bytes, Sum: sum} == content
	return same, ledger.StoreError(job.ErrorOutput, err)
}

// RestoreSides publishes those files beside the output again that are not as DONE describes them: DONE
// is written before them, and an output that matches DONE may be that of an earlier run. What they hold is in
// the parts.
func (p *Publication) RestoreSides(ctx context.Context, d *wire.Done) error {
	p.Output, p.Errors, p.Failures, p.Dropped, p.delivered, p.kept = d.Output, d.Errors, d.Failures, d.Dropped, d.Delivered, d.Kept
	var again []side
	for _, s := range []side{p.errorsSide(), p.droppedSide()} {
		same, err := p.sideMatches(ctx, s, *s.content, *s.shown, d.Delivered)
		if err != nil {
			return err
		}
		if !same {
			again = append(again, s)
		}
	}
	if len(again) == 0 {
		return nil
	}
	publish, giveUp, err := p.writeSides(ctx, again...)
	if err != nil {
		return err
	}
	defer giveUp()
	return ledger.WhileCurrent(ctx, p.Ref, p.Dir, func(ctx context.Context) error {
		if err := publish(ctx); err != nil {
			return err
		}
		return p.deliver(ctx)
	})
}

// PublishErrors publishes the error records of a job that is not complete, while the store names its run as the current
// one. It returns where they are; empty: there are none, or they go into a device or a pipe, which gets them once the
// job completes.
func (p *Publication) PublishErrors(ctx context.Context) (location string, err error) {
	if p.isSink(p.Spec.Errors) {
		return "", nil
	}
	p.Books = wire.Books{}
	err = ledger.Entries(ctx, p.Dir, p.Links, func(e ledger.OwnedEntry) error {
		p.Books.ErrBytes += e.ErrBytes
		return nil
	})
	if err != nil {
		return "", ledger.StoreError(job.ErrorOutput, err)
	}
	publish, giveUp, err := p.writeSide(ctx, p.errorsSide())
	if err != nil {
		return "", err
	}
	defer giveUp()
	return p.Output.Errors, ledger.WhileCurrent(ctx, p.Ref, p.Dir, publish)
}

// PublishReport puts the report of a run in its place, unless a newer run has claimed the store. A run that could not
// use its store has a report as well.
func PublishReport(ctx context.Context, access ledger.Access, ref wire.Ref, location string, data []byte) error {
	to, name, err := OpenTarget(ctx, access, location, ref.Perm)
	if err != nil {
		return err
	}
	w, err := store.CreateUnchanged(ctx, to, name) // before the look at the store
	if err != nil {
		return ledger.StoreError(job.ErrorOutput, err)
	}
	defer w.Abort() // does nothing after a commit
	if _, err := w.Write(data); err != nil {
		return ledger.StoreError(job.ErrorOutput, err)
	}
	commit := func(context.Context) error { return w.Commit() }
	if ref.Store == "" {
		return ledger.StoreError(job.ErrorOutput, commit(ctx))
	}
	dir, err := ledger.OpenStore(ctx, ref, access)
	if err != nil {
		return ledger.StoreError(job.ErrorOutput, commit(ctx))
	}
	return ledger.UnlessOvertaken(ctx, ref, dir, commit)
}
