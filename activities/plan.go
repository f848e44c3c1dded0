package activities

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// Cursor is where in the input the next page begins.
type Cursor struct {
	Source int   `json:"source"`
	Offset int64 `json:"offset"`
	Item   int64 `json:"item"` // the next ordinal
}

// PlanInput asks for one page of batches.
type PlanInput struct {
	Ref    Ref      `json:"ref"`
	Spec   job.Spec `json:"spec"`
	From   Cursor   `json:"from"`
	Resume []string `json:"resume,omitempty"` // manifests of earlier runs: what they hold is left out
	// Redrive, where it is set, has the failed items of that job planned instead of the spec's input.
	Redrive *job.Redrive `json:"redrive,omitempty"`
	// Batches is the most batches of the page: 1 … 1,000.
	Batches int    `json:"batches"`
	Sizing  Sizing `json:"sizing"`
	// Hurry ends the page early, once this much time has gone by: workers are waiting for it.
	// 0: no hurry.
	Hurry time.Duration `json:"hurry,omitempty"`
}

// PlanResult is one page.
type PlanResult struct {
	Page []byte `json:"page,omitempty"` // see [DecodePage]
	Next Cursor `json:"next"`
	Done bool   `json:"done"` // nothing is left after this page

	// The first page tells these, too.
	Sources string     `json:"sources,omitempty"` // key of the source table
	Total   int64      `json:"total,omitempty"`   // bytes of input, 0 where unknown
	Resumed job.Totals `json:"resumed"`           // what earlier runs account for
}

// maxPageTime bounds one execution, so that a page reaches the workers even where finding items
// is slow, and a crash costs no more than that.
const maxPageTime = 20 * time.Second

// Plan reads on through the input, from where the last page ended, and returns the batches it
// finds. The first page also checks that the output can be written, claims the store for this run
// and writes the source table. A worker keeps its place open between pages; another worker takes
// over by opening the input at the cursor.
func (a *Activities) Plan(ctx context.Context, in PlanInput) (PlanResult, error) {
	defer beating(ctx)()
	dir, err := a.opts.Access.Open(ctx, in.Ref.Store)
	if err != nil {
		return PlanResult{}, storeError(job.ErrorOutput, err)
	}
	if over, err := a.redrivenBefore(ctx, dir, in); err != nil || over {
		return PlanResult{Next: in.From, Done: true}, err
	}
	var result PlanResult
	p := a.takePlanner(in.Ref.Run)
	if p == nil || p.at != in.From || in.Ref.Sources == "" {
		if p, err = a.newPlanner(ctx, dir, in, p, &result); err != nil {
			return PlanResult{}, err
		}
	}
	if err := p.page(ctx, in, &result); err != nil {
		p.close()
		return PlanResult{}, err
	}
	if result.Done {
		p.close()
		return result, nil
	}
	a.keepPlanner(in.Ref.Run, p)
	if in.Ref.Sources == "" {
		a.joinEarly(in)
	}
	return result, nil
}

func (a *Activities) takePlanner(run string) *planner {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.planners[run]
	delete(a.planners, run)
	return p
}

func (a *Activities) keepPlanner(run string, p *planner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other, old := range a.planners {
		if len(a.planners) < maxCached {
			break
		}
		old.close()
		delete(a.planners, other)
	}
	a.planners[run] = p
}

// newPlanner opens the input at the cursor. old, which may be nil, gives up its half-read inputs.
func (a *Activities) newPlanner(ctx context.Context, dir store.Dir, in PlanInput, old *planner, result *PlanResult) (*planner, error) {
	p := &planner{acts: a, dir: dir, at: in.From, spoolers: map[int]*spooler{}}
	if old != nil {
		p.spoolers, old.spoolers = old.spoolers, nil
		old.close()
	}
	if err := p.begin(ctx, in, result); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// begin finds the sources, and what is done of them.
func (p *planner) begin(ctx context.Context, in PlanInput, result *PlanResult) error {
	links, err := chain(ctx, p.dir, in.Resume)
	if err != nil {
		return err
	}
	sources := in.Ref.Sources
	if sources == "" {
		if sources, err = p.acts.firstPlan(ctx, p, in, links); err != nil {
			return err
		}
		result.Sources, result.Total = sources, p.table.totalBytes()
	} else if p.table, err = p.acts.table(ctx, p.dir, sources); err != nil {
		return err
	}
	resumed, err := p.skipAccepted(ctx, links)
	if err == nil && in.Ref.Sources == "" {
		result.Resumed = resumed
	}
	return err
}

// firstPlan does what only a job's first page does and returns the key of the source table.
func (a *Activities) firstPlan(ctx context.Context, p *planner, in PlanInput, links []link) (string, error) {
	if err := a.checkOutputs(ctx, in.Spec); err != nil {
		return "", err
	}
	if err := p.dir.Claim(ctx, currentKey, in.Ref.Run); err != nil {
		return "", storeError(job.ErrorOutput, fmt.Errorf("claiming the store: %w", err))
	}
	if len(links) > 0 {
		return a.resumedTable(ctx, p, links[0].Sources)
	}
	if in.Redrive != nil {
		return a.redriveTable(ctx, p, in)
	}
	table, err := a.buildTable(ctx, in)
	if err != nil {
		return "", err
	}
	p.table = table
	for i := range table.Sources {
		if table.Sources[i].URL == stdinName {
			if err := table.Sources[i].takeHead(p.open(ctx, i, 0, -1), in.Spec.MaxItem); err != nil {
				return "", err
			}
		}
	}
	key := in.Ref.sourcesKey(newToken())
	return key, writeTable(ctx, p.dir, key, table)
}

// resumedTable takes the source table of the runs before, provided that the inputs are as it says.
func (a *Activities) resumedTable(ctx context.Context, p *planner, key string) (string, error) {
	table, err := a.table(ctx, p.dir, key)
	if err != nil {
		return "", err
	}
	p.table = table
	for i := range table.Sources {
		if err := a.unchanged(ctx, &table.Sources[i]); err != nil {
			return "", err
		}
	}
	return key, nil
}

// page fills result with the next batches.
func (p *planner) page(ctx context.Context, in PlanInput, result *PlanResult) error {
	p.ctx = ctx
	var batches []job.Batch
	began := time.Now()
	for len(batches) < in.Batches {
		if err := ctx.Err(); err != nil {
			return err
		}
		took := time.Since(began)
		if len(batches) > 0 && (took > maxPageTime || in.Hurry > 0 && took > in.Hurry) {
			break
		}
		items, bytes := batchSize(in.Spec, in.Sizing, len(batches), p.left())
		if in.Ref.Sources == "" && showsSpeed(in, len(batches), items, p.left()) {
			break
		}
		batch, err := p.next(ctx, items, bytes)
		if err == io.EOF {
			result.Done = true
			break
		}
		if err != nil {
			return err
		}
		batches = append(batches, batch)
	}
	result.Page, result.Next = EncodePage(batches), p.at
	return nil
}
