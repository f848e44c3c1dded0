package redrive

import (
	"bufio"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// finisher merges the new outcomes of the items into the output of the completed job, which stays as it
// is until the merged one replaces it. The merged state has its own manifests and error parts, so that
// at the end only unchanged parts of the previous state are kept. Like any Finish it can be repeated at
// any point: what it writes, keys included, depends only on its input, so that two executions at once
// write the same, and neither removes what the other one names.
type finisher struct {
	*outputs.Publication
	in     wire.FinishRedriveInput
	inputs *inputs.Inputs
	fill   Fill
}

// Fill gives items of a redrive that wait for it the outcome of an equal one. It returns the heads of manifests that have
// these.
type Fill func(ctx context.Context, dir store.Dir, again ledger.Links) ([]string, error)

// Keep is called with what a redrive itself has recorded, once its output is published, and before its parts are
// removed.
type Keep func(ctx context.Context, dir store.Dir, again ledger.Links) error

// Finish publishes the merged output of a redrive.
func Finish(ctx context.Context, access ledger.Access, n *inputs.Inputs, in wire.FinishRedriveInput, fill Fill, keep Keep) (wire.FinishResult, error) {
	p, err := outputs.NewPublication(ctx, access, in.Ref, in.Spec)
	if err != nil {
		return wire.FinishResult{}, err
	}
	f := &finisher{Publication: p, in: in, inputs: n, fill: fill}
	err = outputs.Once(ctx, f.adopt, f.mergeAndPublish)
	if err == nil { // it has been published: a stop comes too late
		ctx = context.WithoutCancel(ctx)
		again := in.Manifests
		if len(f.Filled) > 0 {
			again = f.Filled
		}
		err = keep(ctx, f.Dir, ledger.Along(f.Dir, again))
	}
	if err == nil {
		err = f.sweepMerged(ctx)
	}
	if err != nil {
		return wire.FinishResult{}, err
	}
	return wire.FinishResult{
		Output: f.Output, Books: f.Books, Failures: f.Failures, Redriven: f.Merged.Redriven, Manifests: f.Merged.Manifests, FirstError: f.Merged.FirstError,
	}, nil
}

// AlreadyPublished reports whether an earlier attempt at the redrive has published the merged output, but was
// ended before it could report that: only Finish is left to do then. From now on no other run publishes.
func AlreadyPublished(ctx context.Context, access ledger.Access, in wire.PlanRedriveInput) (bool, error) {
	if len(in.Redrive.Runs) < 2 || in.Ref.Sources != "" {
		return false, nil
	}
	p, err := outputs.NewPublication(ctx, access, in.Ref, in.Spec)
	if err != nil {
		return false, err
	}
	if err := ledger.Claim(ctx, in.Ref, p.Dir); err != nil {
		return false, err
	}
	before, _, err := published(ctx, p, in.Redrive)
	return before != nil, err
}

// published returns the merged state if it has been published already: by this run, or by an earlier
// attempt that was ended before it could report that.
func published(ctx context.Context, p *outputs.Publication, of job.Redrive) (d *wire.Done, run string, err error) {
	// The latest one comes first: once it has published, it removes what those before it had.
	attempts := slices.Clone(of.Runs[min(1, len(of.Runs)):])
	slices.Reverse(attempts)
	for _, run := range slices.Concat([]string{p.Ref.Run}, attempts) {
		d, err := ledger.ReadDone(ctx, p.Dir, run)
		var same bool
		if err == nil && d != nil {
			same, err = p.Matches(ctx, d)
		}
		if err != nil || same {
			return d, run, err
		}
	}
	return nil, "", nil
}

// adopt continues from a merged state that has been published already, if there is one. If another attempt
// had published one, Plan would have found nothing to do: items that have been run again since are kept.
func (f *finisher) adopt(ctx context.Context) (bool, error) {
	before, run, err := published(ctx, f.Publication, f.in.Redrive)
	if err != nil || before == nil || run != f.Ref.Run && f.in.Planned > 0 {
		return false, err
	}
	links, err := ledger.Chain(ctx, f.Dir, before.Manifests)
	if err != nil {
		return false, err
	}
	f.Links = links
	if len(links) > 0 { // Plan has planned nothing, and so not said what the inputs grant
		table, err := f.inputs.Table(ctx, f.Dir, links[0].Sources)
		if err != nil {
			return false, err
		}
		f.Ref.Perm = table.Perm
	}
	f.Books, f.Merged, f.Filled = before.Books, before.Merged, before.Filled
	// If the redrive has given no new result the file was the same before: the errors may be the old ones.
	if err := f.RestoreSides(ctx, before); err != nil || run == f.Ref.Run {
		return true, err
	}
	f.Merged.Before = append(f.Merged.Before, run)
	return true, f.WriteDone(ctx)
}

func (f *finisher) mergeAndPublish(ctx context.Context) error {
	links, fresh, err := f.ranAgain(ctx, f.in.Manifests)
	if err == nil && fresh.Waiting > 0 {
		if f.Filled, err = f.fill(ctx, f.Dir, links); err == nil {
			links, fresh, err = f.ranAgain(ctx, f.Filled)
		}
	}
	if err != nil {
		return err
	}
	before, err := ledger.Chain(ctx, f.Dir, f.in.Redrive.Manifests)
	if err != nil {
		return err
	}
	again, err := selected(f.in.Redrive.Where)
	if err != nil {
		return err
	}
	m := &merger{Remade: ledger.Remade{Dir: f.Dir, Ref: f.Ref, Key: f.Ref.MergedManifestKey}, again: again, outcomes: newOutcomes(ctx, f.Dir, links), flatten: f.Spec.Flatten}
	defer m.outcomes.close()
	joined, err := f.openOutput(ctx, m, fresh.Bytes)
	if err != nil {
		return err
	}
	defer m.out.close()
	if joined.Joining != nil {
		defer joined.Joining.Abort()
	}
	if err := f.merge(ctx, m, before, links); err != nil {
		return err
	}
	f.Merged.Redriven, f.Merged.Manifests, f.Merged.FirstError = f.in.Planned, m.Heads, m.first
	f.Links = ledger.Along(f.Dir, m.Heads)
	if f.Books, err = ledger.CheckBooks(ctx, f.Dir, f.Links, f.in.Redrive.Planned); err != nil {
		return err
	}
	return f.PublishNew(ctx, func(context.Context) (outputs.Begun, error) { return joined, nil })
}

// ranAgain returns the manifests of the items that were run again, and what they add up to.
func (f *finisher) ranAgain(ctx context.Context, heads []string) (links ledger.List, books wire.Books, err error) {
	if links, err = ledger.Chain(ctx, f.Dir, heads); err == nil {
		books, err = ledger.CheckBooks(ctx, f.Dir, links, f.in.Planned)
	}
	return links, books, err
}

// openOutput prepares the merged output, which gets up to more bytes of new results.
func (f *finisher) openOutput(ctx context.Context, m *merger, more int64) (outputs.Begun, error) {
	kept := f.KeepsParts()
	if runs := f.in.Redrive.Runs; !kept && len(runs) > 0 {
		before, err := ledger.ReadDone(ctx, f.Dir, runs[0])
		if err != nil {
			return outputs.Begun{}, err
		}
		kept = before != nil && before.Kept
	}
	if kept {
		m.out = &mergedParts{dir: f.Dir, run: f.Ref.Run}
		return outputs.Begun{}, nil
	}
	file, err := f.openMerged(ctx, f.in.Redrive.Output.Bytes+more)
	if err != nil {
		return outputs.Begun{}, err
	}
	m.out = file
	return outputs.Begun{Joining: file.to, Parts: outputs.AllParts}, nil
}

// merge makes the merged state, of which nothing is visible yet, from the previous chain and from again,
// the outcomes of the items that were run again.
func (f *finisher) merge(ctx context.Context, m *merger, before, again ledger.List) error {
	runs := map[string]bool{}
	for _, run := range f.in.Redrive.Runs {
		runs[run] = true
	}
	for _, l := range slices.Concat(before, again) {
		runs[l.Run] = true
	}
	if len(before) > 0 {
		if err := f.copyTable(ctx, m, before[0].Sources); err != nil {
			return err
		}
	}
	err := ledger.Entries(ctx, f.Dir, before, func(e ledger.OwnedEntry) error {
		runs[e.Owner] = true
		return m.entry(ctx, e)
	})
	if err != nil {
		return err
	}
	if err := m.outcomes.end(); err != nil {
		return err
	}
	if err := m.out.end(); err != nil {
		return err
	}
	delete(runs, f.Ref.Run)
	f.Merged.Before = slices.Sorted(maps.Keys(runs))
	return m.Flush(ctx)
}

// copyTable gives the merged state its own source table.
func (f *finisher) copyTable(ctx context.Context, m *merger, key string) error {
	table, err := f.inputs.Table(ctx, f.Dir, key)
	if err != nil {
		return err
	}
	m.Ref.Sources = m.Ref.MergedSourcesKey()
	return inputs.WriteTable(ctx, f.Dir, m.Ref.Sources, table)
}

// sweepMerged removes from the store what the merged state does not need: of the redrive, and of all
// runs before it.
func (f *finisher) sweepMerged(ctx context.Context) error {
	// A newer run may need what is there.
	if err := ledger.WhileCurrent(ctx, f.Ref, f.Dir, func(context.Context) error { return nil }); err != nil {
		return err
	}
	for _, run := range append(slices.Clone(f.Merged.Before), f.Ref.Run) {
		if err := f.SweepRun(ctx, run, f.Ref.DoneKey()); err != nil {
			return err
		}
	}
	return nil
}

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

// damaged returns the error of a file whose content cannot be read: that of reading it, or else it is not the one that
// was published.
func (o *mergedFile) damaged(err error) error {
	if failed := o.body.Failed(); failed != nil {
		return failed
	}
	return outputChanged(o.before, "cannot be read ("+err.Error()+")")
}
