package feeds

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

const (
	// A batch of what is left has at most maxBatch items, unless the spec says how many, and about batchBytes.
	maxBatch   = 1000
	batchBytes = 1 << 20
)

// Plan returns a page of batches of the items that earlier runs had accepted, and that have no outcome. For the first
// page it writes the source table, and records the items as failed of which the store has nothing (lost.go).
func Plan(ctx context.Context, n *inputs.Inputs, dir store.Dir, in wire.PlanFeedInput) (wire.PlanFeedResult, error) {
	links := ledger.Along(dir, in.Resume)
	p := &plan{dir: dir, in: in}
	p.shape = wire.Shape{Format: wire.Format(in.Spec.Format), MaxItem: int(in.Spec.MaxItem)}
	if err := p.checkFormat(ctx, n, links); err != nil {
		return wire.PlanFeedResult{}, err
	}
	if err := p.survey(ctx, links); err != nil {
		return wire.PlanFeedResult{}, err
	}
	if first := in.Ref.Sources == ""; first {
		var err error
		if len(p.lost) > 0 {
			if links, err = p.rescue(ctx); err != nil {
				return wire.PlanFeedResult{}, err
			}
		}
		if p.result.Closed, err = wasFinished(ctx, dir, links); err != nil {
			return wire.PlanFeedResult{}, err
		}
		if p.result.Sources, err = p.writeTable(ctx); err != nil {
			return wire.PlanFeedResult{}, err
		}
		if err := p.recordLost(ctx); err != nil {
			return wire.PlanFeedResult{}, err
		}
	} else { // those belong to the first page
		if len(p.lost) > 0 {
			return wire.PlanFeedResult{}, ledger.Unbalanced("%s of the feed have no outcome any more, and had one when the run began", p.lost[0])
		}
		p.result.Resumed, p.result.Unfinished, p.result.Discarded, p.result.Session = job.Totals{}, 0, 0, 0
	}
	return p.result, p.page(ctx)
}

// wasFinished reports whether one of the runs has come as far as to publish the output: its parts may be gone.
func wasFinished(ctx context.Context, dir store.Dir, links ledger.Links) (finished bool, err error) {
	seen := map[string]bool{}
	err = links.Each(ctx, func(l ledger.Link) error {
		if finished || seen[l.Run] {
			return nil
		}
		seen[l.Run] = true
		done, err := ledger.ReadDone(ctx, dir, l.Run)
		finished = done != nil
		return err
	})
	return finished, err
}

// plan is the planning of one page.
type plan struct {
	dir    store.Dir
	in     wire.PlanFeedInput
	shape  wire.Shape
	spills []wire.Spill // by first ordinal; source i+1 of the table is the one at i
	left   []gap
	lost   []gap
	result wire.PlanFeedResult
}

// gap is a range of items without an outcome, and the spill that has them, if one has.
type gap struct {
	first, end int64
	spill      int
	session    int64 // of the items before
}

func (g gap) String() string { return fmt.Sprintf("items %d to %d", g.first, g.end-1) }

// checkFormat returns a permanent error if the items of earlier runs had another format.
func (p *plan) checkFormat(ctx context.Context, n *inputs.Inputs, links ledger.Links) error {
	first, err := ledger.First(ctx, links)
	if err != nil || first == nil {
		return err
	}
	table, err := n.Table(ctx, p.dir, first.Sources)
	if err != nil {
		return err
	}
	if len(table.Sources) == 0 || table.Sources[0].URL != SourceName(p.in.Ref.Job) {
		return ledger.Permanent(job.ErrorInvalid, fmt.Errorf("the earlier run of %s was no feed: start anew with --fresh", p.in.Ref.Job))
	}
	if was := table.Sources[0].Shape.Format; was != p.shape.Format {
		return ledger.Permanent(job.ErrorInvalid, fmt.Errorf("the feed's items were in format %s: resume it with that, not with %s", was, p.shape.Format))
	}
	return nil
}

// survey finds out what a chain of manifests has of the feed's items.
func (p *plan) survey(ctx context.Context, links ledger.Links) error {
	p.spills, p.result = nil, wire.PlanFeedResult{Accepted: p.in.Accepted}
	if err := p.findSpills(ctx, links); err != nil {
		return err
	}
	return p.findGaps(ctx, links)
}

// findSpills lists the spills of the chain.
func (p *plan) findSpills(ctx context.Context, links ledger.Links) error {
	err := links.Each(ctx, func(l ledger.Link) error {
		for _, s := range l.Spills {
			p.spills = append(p.spills, s)
			p.result.Accepted = max(p.result.Accepted, s.End())
			p.result.Session = max(p.result.Session, s.Session)
		}
		return nil
	})
	slices.SortFunc(p.spills, func(a, b wire.Spill) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Key, b.Key)) })
	return err
}

// findGaps adds up what the chain accounts for, and finds out which spills have the other items.
func (p *plan) findGaps(ctx context.Context, links ledger.Links) error {
	finder := &finder{spills: p.spills, session: 1}
	var at int64
	err := ledger.Entries(ctx, p.dir, links, func(e ledger.OwnedEntry) error {
		if e.First < at {
			return ledger.Unbalanced("items %d to %d are in two accepted parts", e.First, min(e.End(), at)-1)
		}
		finder.find(at, e.First)
		at, finder.session = e.End(), max(e.Session, 1)
		r := &p.result
		r.Resumed.OK += e.OK
		r.Resumed.Failed += e.Failed
		r.Resumed.Dropped += e.Dropped
		r.Discarded += e.Discarded
		r.Session = max(r.Session, e.Session)
		return nil
	})
	if err != nil {
		return err
	}
	p.result.Accepted = max(p.result.Accepted, at)
	finder.find(at, p.result.Accepted)
	p.left, p.lost = finder.found, finder.lost
	for _, g := range p.left {
		p.result.Unfinished += g.end - g.first
	}
	return nil
}

// finder finds the spills that have given ranges of items. The ranges come in order.
type finder struct {
	spills  []wire.Spill // by first ordinal
	next    int          // the first one that has not been looked at
	best    int          // of those that have been: the one that ends last
	session int64        // of the items before the next range
	found   []gap
	lost    []gap
}

// find finds the items from first to before end.
func (f *finder) find(first, end int64) {
	for first < end {
		for f.next < len(f.spills) && f.spills[f.next].First <= first {
			if f.spills[f.next].End() > f.spills[f.best].End() {
				f.best = f.next
			}
			f.next++
		}
		g := gap{first: first, end: end, spill: f.best, session: f.session}
		if f.next > 0 && f.spills[f.best].End() > first {
			g.end = min(end, f.spills[f.best].End())
			f.found = append(f.found, g)
		} else {
			if f.next < len(f.spills) {
				g.end = min(end, f.spills[f.next].First)
			}
			f.lost = append(f.lost, g)
		}
		first = g.end
	}
}

// writeTable writes the source table and returns its key.
func (p *plan) writeTable(ctx context.Context) (string, error) {
	name := p.in.Ref.Job
	table := inputs.Table{SourceTable: wire.SourceTable{Sources: []wire.Source{{URL: SourceName(name), Shape: p.shape, Own: true}}}}
	for _, s := range p.spills { // its batches are ranges of its bytes
		table.Sources = append(table.Sources, wire.Source{URL: SourceName(name), Size: s.Bytes, Shape: p.shape, Spool: s.Key, Own: true, Spilled: true, Session: s.Session})
	}
	key := ledger.NewSourcesKey(p.in.Ref)
	return key, inputs.WriteTable(ctx, p.dir, key, &table)
}

// page cuts what is left into batches, from the cursor on.
func (p *plan) page(ctx context.Context) error {
	var batches []wire.Batch
	var left int64
	for _, g := range p.left {
		left += max(0, g.end-max(g.first, p.in.From.Item))
	}
	var of int          // the spill whose lines are known
	var offsets []int64 // of its lines, and its end
	p.result.Next.Item = p.in.From.Item
	for _, g := range p.left {
		if g.end <= p.in.From.Item {
			continue
		}
		spill := &p.spills[g.spill]
		if offsets == nil || of != g.spill {
			offsets, of = []int64{0}, g.spill
			err := readSpill(ctx, p.dir, spill, func(length int) {
				offsets = append(offsets, offsets[len(offsets)-1]+int64(length)+1)
			})
			if err != nil {
				return err
			}
		}
		for at := max(g.first, p.in.From.Item); at < g.end; {
			if len(batches) >= p.in.Batches {
				p.result.Page = wire.EncodePage(batches)
				return nil
			}
			most := p.batchItems(len(batches), left)
			b := wire.Batch{Source: g.spill + 1, First: at, Offset: offsets[at-spill.First]}
			for ; at < g.end && b.Count < most && (b.Count == 0 || b.Length < batchBytes); at++ {
				b.Count++
				b.Length = offsets[at+1-spill.First] - b.Offset
			}
			batches = append(batches, b.Sealed())
			left -= b.Count
			p.result.Next.Item = at
		}
	}
	p.result.Page, p.result.Done = wire.EncodePage(batches), true
	p.result.Next.Item = p.result.Accepted
	return nil
}

// batchItems returns the most items of the next batch, the index-th of the page.
func (p *plan) batchItems(index int, left int64) int64 {
	items, _ := inputs.BatchSize(p.in.Spec, p.in.Sizing, index, left)
	if p.in.Spec.BatchItems == 0 {
		items = min(items, maxBatch)
	}
	return items
}

// writeSpill writes items to the store, one a line.
func writeSpill(ctx context.Context, dir store.Dir, key string, format wire.Format, all []wire.FeedItems) (wire.Spill, error) {
	spill := wire.Spill{Key: key, First: all[0].First, Session: all[0].Session, Format: format}
	w := inputs.NewSpoolWriter(ctx, dir, key)
	defer w.Abort()
	var line bytes.Buffer
	for _, r := range all {
		for i, item := range r.Items {
			line.Reset()
			if err := json.Compact(&line, item); err != nil {
				return spill, ledger.Permanent(job.ErrorInvalid, fmt.Errorf("item %d is not JSON: %w", r.First+int64(i), err))
			}
			spill.Longest = max(spill.Longest, line.Len())
			line.WriteByte('\n')
			spill.Sum = crc32.Update(spill.Sum, wire.CRC32C, line.Bytes())
			if err := w.Write(line.Bytes()); err != nil {
				return spill, err
			}
			spill.Count++
		}
	}
	spill.Bytes = w.Bytes
	return spill, w.End()
}

// readSpill calls each with the length of each line of a spill, without its end, in order. It fails unless the spill is
// what was written.
func readSpill(ctx context.Context, dir store.Dir, s *wire.Spill, each func(length int)) error {
	broken := func(err error) error {
		return fmt.Errorf("reading items %d to %d, which were copied to %s when the feed was stopped: %w", s.First, s.End()-1, s.Key, err)
	}
	body := inputs.OpenSpool(ctx, dir, s.Key, 0, s.Bytes)
	defer body.Close()
	var sum uint32
	var count, size int64
	lines := bufio.NewReaderSize(body, 64<<10)
	for length := 0; ; {
		piece, err := lines.ReadSlice('\n')
		sum, size = crc32.Update(sum, wire.CRC32C, piece), size+int64(len(piece))
		length += len(piece)
		switch {
		case err == nil:
			each(length - 1)
			count, length = count+1, 0
			continue
		case err == bufio.ErrBufferFull:
			continue
		case errors.Is(err, fs.ErrNotExist):
			return ledger.Permanent(job.ErrorCorrupt, broken(err))
		case err != io.EOF:
			return ledger.StoreError(job.ErrorCorrupt, broken(err))
		}
		break
	}
	if count != s.Count || size != s.Bytes || sum != s.Sum {
		return ledger.Permanent(job.ErrorCorrupt, broken(fmt.Errorf(
			"they have %d lines, %d bytes, %s, and had %d lines, %d bytes, %s", count, size, ledger.FormatSum(sum), s.Count, s.Bytes, ledger.FormatSum(s.Sum))))
	}
	return nil
}

// OpenSpilled reads the items of a batch of a spill.
func OpenSpilled(ctx context.Context, dir store.Dir, source *wire.Source, jobName string, batch wire.Batch) (*Items, error) {
	body := inputs.OpenSpool(context.WithoutCancel(ctx), dir, source.Spool, batch.Offset, batch.Length)
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, ledger.StoreError(job.ErrorCorrupt, fmt.Errorf("reading %s of a feed: %w", batch, err))
	}
	items := make([]json.RawMessage, 0, bytes.Count(data, []byte("\n")))
	for line := range bytes.Lines(data) {
		items = append(items, bytes.TrimSuffix(line, []byte("\n")))
	}
	if int64(len(items)) != batch.Count || int64(len(data)) != batch.Length {
		return nil, ledger.Permanent(job.ErrorCorrupt, fmt.Errorf("%s of a feed, in %s from byte %d on, are %d lines and %d bytes, and were %d bytes",
			batch, source.Spool, batch.Offset, len(items), len(data), batch.Length))
	}
	all, err := NewItems(jobName, batch, items, source.Shape)
	if err == nil {
		all.lines = true
	}
	return all, err
}
