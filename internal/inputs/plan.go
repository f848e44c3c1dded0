package inputs

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/pipeline"
	"github.com/stint-run/stint/internal/stall"
	"github.com/stint-run/stint/internal/store"
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

// discard removes the table that p has made itself, and the copies for it, unless its first page has been returned: nobody knows of
// them, and the next execution makes its own, for which the disk may not have the space beside them. The copy of the standard input stays: the
// next execution goes on with it. What cannot be removed now, Finish removes.
func (p *planner) discard(ctx context.Context) {
	if p.listed == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	_, _ = p.dir.Sweep(ctx, ledger.SpoolsPrefix(p.listed), func(string) bool { return false })
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
		result.LeftOut = p.table.LeftOut
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
	for i := range p.table.Sources {
		if p.table.Sources[i].URL == stdinName {
			if err := p.stdinHead(ctx, i); err != nil {
				return "", err
			}
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
