package inputs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/newfiles"
	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/data/unique"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// maxPageTime bounds one execution, so that a page reaches the workers even if finding items
// is slow, and a crash costs no more than that.
const maxPageTime = 20 * time.Second

// Lister finds the sources of a job when its first page is planned. A job's inputs are one
// implementation, the failed items of another job are one; the files of an earlier stage of a
// pipeline would be one, too. Sources without bytes, items that arrive or the ticks of a clock, need
// no plan.
type Lister interface {
	// List returns the sources in the order of their items, for a table whose key is in.Ref.Sources. If
	// it writes to dir it does so below the run of in.Ref, under keys that no other table's share.
	List(ctx context.Context, dir store.Dir, in wire.PlanInput) (*Table, error)
}

// Completer is a Lister that completes the table once its items can be read.
type Completer interface {
	Lister
	// Complete completes the table of List, which is not written yet. What it writes to dir lies as what List writes.
	Complete(ctx context.Context, dir store.Dir, in wire.PlanInput, table *Table, each EachItem) error
}

// EachItem calls fn with all items of a table, in their order, until it returns an error. An item is valid during the
// call.
type EachItem func(ctx context.Context, fn func(shape *wire.Shape, item *records.Item) error) error

// Plan reads on through the sources, from where the last page ended, and returns the batches that it
// finds. For the first page it writes the source table of what from lists. It keeps its place open
// between pages; otherwise it opens the source at the cursor.
func (n *Inputs) Plan(ctx context.Context, dir store.Dir, in wire.PlanInput, from Lister) (wire.PlanResult, error) {
	var result wire.PlanResult
	p := n.takePlanner(in.Ref)
	if p == nil || p.at != in.From {
		var err error
		if p, err = n.newPlanner(ctx, dir, in, p, from, &result); err != nil {
			return wire.PlanResult{}, err
		}
	}
	defer stall.Include(ctx, p.meter).Close()
	if err := p.page(ctx, in, &result); err != nil {
		p.Close()
		p.discard(ctx)
		return wire.PlanResult{}, err
	}
	p.listed = ""
	if result.Done {
		p.Close()
	} else {
		n.keepPlanner(in.Ref.Run, p)
	}
	return result, nil
}

// newPlanner opens the source at the cursor. It takes the half-read inputs of old, which may be nil and
// is of the same source table.
func (n *Inputs) newPlanner(ctx context.Context, dir store.Dir, in wire.PlanInput, old *planner, from Lister, result *wire.PlanResult) (*planner, error) {
	p := &planner{inputs: n, dir: dir, at: in.From, spoolers: map[int]chunker{}, meter: stall.NewMeter()}
	defer stall.Include(ctx, p.meter).Close() // all items may be read before the first page
	if old != nil {
		p.spoolers, old.spoolers = old.spoolers, nil
		old.Close()
	}
	if err := p.begin(ctx, in, from, result); err != nil {
		p.Close()
		p.discard(ctx)
		return nil, err
	}
	return p, nil
}

// discardTime bounds how long the answer of an execution that has failed waits until what it has written is removed.
const discardTime = 20 * time.Second

// discard removes the table that p has made itself, and the copies for it, unless its first page has been returned:
// nobody knows of them, and the next execution makes its own, for which the disk may not have the space beside them.
// The copy of the standard input stays: the next execution goes on with it. What cannot be removed now, Finish removes.
func (p *planner) discard(ctx context.Context) {
	if p.listed == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	_, _ = p.dir.Sweep(ctx, ledger.SpoolsPrefix(p.listed), func(string) bool { return false })
	_ = p.dir.Delete(ctx, newfiles.Key(p.listed))
	_ = p.dir.Delete(ctx, unique.Key(p.listed))
	_ = p.dir.Delete(ctx, p.listed)
}

// begin finds the sources, and which of their items are done.
func (p *planner) begin(ctx context.Context, in wire.PlanInput, from Lister, result *wire.PlanResult) error {
	links, err := ledger.Chain(ctx, p.dir, in.Resume)
	if err != nil {
		return err
	}
	sources, first := in.Ref.Sources, in.Ref.Sources == ""
	switch {
	case !first:
		p.table, err = p.inputs.Table(ctx, p.dir, sources)
	case len(links) > 0:
		sources = links[0].Sources
		if err = checkNamed(in.Spec); err == nil {
			err = p.takeOver(ctx, sources)
		}
	default:
		sources, err = p.list(ctx, in, from)
	}
	if err != nil {
		return err
	}
	p.sources, p.dir = sources, store.Narrow(p.dir, p.table.Perm)
	resumed, err := p.skipAccepted(ctx, links, len(pipeline.Compile(in.Spec.Stages)))
	if err == nil && first {
		result.Sources, result.Total, result.Resumed, result.Perm = sources, p.table.totalBytes(), resumed, p.table.Perm
		result.LeftOut, result.OldFiles, result.Reuse = p.table.LeftOut, p.table.OldFiles, p.table.Reuse.Offer()
	}
	return err
}

// list writes the source table of a new job and returns its key.
func (p *planner) list(ctx context.Context, in wire.PlanInput, from Lister) (key string, err error) {
	key = ledger.NewSourcesKey(in.Ref)
	in.Ref.Sources, p.listed = key, key
	if p.table, err = from.List(ctx, p.dir, in); err != nil {
		return "", err
	}
	p.dir = store.Narrow(p.dir, p.table.Perm)
	p.noteAll(p.table.notes)
	for i := range p.table.Sources {
		if p.table.Sources[i].URL == stdinName {
			if err := p.stdinHead(ctx, i); err != nil {
				return "", err
			}
		}
	}
	if from, ok := from.(Completer); ok {
		if err := from.Complete(ctx, p.dir, in, p.table, p.each); err != nil {
			return "", err
		}
	}
	return key, WriteTable(ctx, p.dir, key, p.table)
}

// stdinHead reads the head of the standard input from its copy. A fault of the store is not the input's.
func (p *planner) stdinHead(ctx context.Context, i int) error {
	body := p.Open(ctx, i, 0, -1)
	defer body.Close()
	var fault error
	err := takeHead(&p.table.Sources[i], readerFunc(func(b []byte) (int, error) {
		n, err := body.Read(b)
		fault = IgnoreEOF(err)
		return n, err
	}))
	if fault != nil {
		return ledger.StoreError(job.ErrorInput, fault)
	}
	return err
}

// takeOver takes the source table of the earlier runs. It fails if an input has changed since.
func (p *planner) takeOver(ctx context.Context, key string) (err error) {
	if p.table, err = p.inputs.Table(ctx, p.dir, key); err != nil {
		return err
	}
	return p.inputs.allUnchanged(ctx, p.table)
}

// page fills result with the next batches.
func (p *planner) page(ctx context.Context, in wire.PlanInput, result *wire.PlanResult) error {
	p.ctx = ctx
	var batches []wire.Batch
	pageTime := maxPageTime
	if in.Hurry > 0 {
		pageTime = min(pageTime, in.Hurry)
	}
	p.due, p.gather = time.Now().Add(pageTime), &gathering{}
	if in.Spec.Files != nil {
		p.gather.flush = in.Spec.Files.Flush
	}
	if p.cutter != nil {
		p.gather.begin() // it may hold items
	}
	if in.Ref.Sources == "" {
		in.Batches = FirstPage(in.Spec, in.Sizing, in.Batches)
	}
	for len(batches) < in.Batches {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(batches) > 0 && p.overdue() {
			break
		}
		items, bytes := BatchSize(in.Spec, in.Sizing, len(batches), p.Left())
		items = p.withReuse(in, len(batches), items)
		if in.Ref.Sources == "" && ShowsSpeed(in, len(batches), items, p.Left()) {
			break
		}
		batch, err := p.Next(ctx, items, bytes)
		if err == io.EOF {
			result.Done = true
			break
		}
		if errors.Is(err, errLater) {
			if result.Waiting = len(batches) > 0; result.Waiting {
				break
			}
			if err := p.await(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		batches = append(batches, batch)
	}
	result.Page, result.Next, result.Noticed = wire.EncodePage(batches), p.at, p.TakeNoticed()
	return nil
}

// skipAccepted loads the ranges that the chain accounts for, joining neighbours, and leaves out those before the
// cursor. Batches that it has left between two of the stages are among them: see withBetween. It returns what the
// others amount to.
func (p *planner) skipAccepted(ctx context.Context, links ledger.List, steps int) (job.Totals, error) {
	var totals job.Totals
	if len(links) == 0 {
		return totals, nil
	}
	var merged []wire.Batch
	err := ledger.Entries(ctx, p.dir, links, func(e ledger.OwnedEntry) error {
		totals.OK += e.OK
		totals.Failed += e.Failed
		totals.Dropped += e.Dropped - e.Waiting
		totals.Lines += e.Lines
		totals.Reused += e.Reused
		totals.Changed += e.Changed
		totals.Again += e.Again
		totals.Equal += e.Equal + e.Waiting
		totals.InputBytes += e.Length
		if n := len(merged); n > 0 && merged[n-1].Source == e.Source &&
			merged[n-1].Offset+merged[n-1].Length == e.Offset && merged[n-1].End() == e.First {
			merged[n-1].Length += e.Length
			merged[n-1].Count += e.Count
			return nil
		}
		merged = append(merged, e.Batch)
		return nil
	})
	if err != nil {
		return totals, err
	}
	p.skip = withBetween(merged, links, steps)
	for len(p.skip) > 0 && p.skip[0].End() <= p.at.Item {
		p.skip = p.skip[1:]
	}
	return totals, nil
}

// withBetween adds to the ranges that are accounted for, which are in order, the batches that earlier runs have left
// between two of so many steps: the last parcel of each item, unless the item is accounted for.
func withBetween(done []wire.Batch, links ledger.List, steps int) []wire.Batch {
	var left []wire.Batch
	for _, l := range links {
		for _, b := range l.Between {
			if b.From != nil && b.From.Step < steps && b.Verify() == nil {
				left = append(left, b)
			}
		}
	}
	if len(left) == 0 {
		return done
	}
	slices.SortStableFunc(left, func(a, b wire.Batch) int { return cmp.Compare(b.From.Step, a.From.Step) })
	all := slices.Clone(done)
	for _, b := range left {
		// A batch that only partly overlaps what has become of it has no known place in the input: its rest begins
		// anew.
		i, found := slices.BinarySearchFunc(all, b.First, func(o wire.Batch, first int64) int { return cmp.Compare(o.First, first) })
		if found || i > 0 && all[i-1].End() > b.First || i < len(all) && all[i].First < b.End() {
			continue
		}
		all = slices.Insert(all, i, b)
	}
	return all
}

// segment returns the number of bytes from the cursor to the next skipped range, or -1: to the end.
func (p *planner) segment() int64 {
	if len(p.skip) > 0 && p.skip[0].Source == p.at.Source {
		return p.skip[0].Offset - p.at.Offset
	}
	return -1
}

// atSkipped reports whether the next skipped range begins at the cursor, or before it if the input has
// changed.
func (p *planner) atSkipped() bool {
	return len(p.skip) > 0 && p.skip[0].Source == p.at.Source && p.at.Offset >= p.skip[0].Offset
}

// pass moves the cursor over the next skipped range.
func (p *planner) pass() error {
	next := p.skip[0]
	if next.Offset != p.at.Offset || next.First != p.at.Item {
		return p.inconsistent(next)
	}
	p.closeReader()
	p.at.Offset += next.Length
	p.at.Item += next.Count
	p.skip = p.skip[1:]
	return nil
}

func (p *planner) inconsistent(next wire.Batch) error {
	url, want, got := p.table.Sources[next.Source].URL, next.Offset, p.at.Offset
	if members, err := p.table.members(&p.table.Sources[next.Source]); err == nil && len(members) > 1 {
		m := &members[min(find(members, next.Offset), len(members)-1)]
		url, want, got = m.URL, want-m.at, got-m.at
	}
	return ledger.Permanent(job.ErrorChanged, fmt.Errorf(
		"input %s is not what it was when the earlier run read it: expected item %d at offset %d, found item %d at offset %d; start anew with --fresh",
		url, next.First, want, p.at.Item, got))
}
