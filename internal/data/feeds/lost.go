package feeds

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

const (
	// maxLost is more items than the legs of a feed can have accepted and not committed; lostAtOnce is how many are
	// recorded in one part.
	maxLost    = 10_000_000
	lostAtOnce = 20_000
)

// lostType is the type of the error of an item that is lost.
const lostType = "Lost"

// lostMessage is what people read about such an item. Its legs had it in their histories, which the server removes
// after its retention.
const lostMessage = "an earlier run of the feed has accepted the item, and neither an outcome nor a copy of it is left: " +
	"the history of its leg was gone when the feed was resumed; put it again"

// rescue looks for manifests of earlier runs that nothing names: a leg may have had one written, and its history was
// gone before anybody heard of that. Those that have nothing but items which are lost otherwise count from now on. It
// returns the chain with them.
func (p *plan) rescue(ctx context.Context) (ledger.Links, error) {
	links, err := ledger.Chain(ctx, p.dir, p.in.Resume)
	if err != nil {
		return nil, err
	}
	known, runs := map[string]bool{}, map[string]bool{}
	for _, l := range links {
		known[l.Key], runs[l.Run] = true, true
	}
	found, err := p.unnamed(ctx, known, runs)
	if err != nil {
		return nil, err
	}
	chains := map[string]ledger.List{}
	for _, key := range found {
		if chains[key], err = ledger.Chain(ctx, p.dir, []string{key}); err != nil {
			return nil, err
		}
	}
	// A leg goes on from one of several attempts at a commit: that one's chain is the longest.
	slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(len(chains[b]), len(chains[a])) })
	heads := slices.Clone(p.in.Resume)
	for _, key := range found {
		fresh := slices.DeleteFunc(chains[key], func(l ledger.Link) bool { return known[l.Key] })
		if fits, err := p.fillsGaps(ctx, fresh); err != nil || !fits {
			if err != nil {
				return nil, err
			}
			continue // another attempt at the same commit counts
		}
		for _, l := range fresh {
			known[l.Key] = true
		}
		heads, links = append(heads, key), append(links, fresh...)
		slices.SortFunc(links, ledger.InOrder)
		if err := p.survey(ctx, links); err != nil {
			return nil, err
		}
	}
	if len(heads) > len(p.in.Resume) {
		p.result.Heads = heads
	}
	return links, nil
}

// unnamed lists the manifests of the runs that are not known, and that no other one of them names.
func (p *plan) unnamed(ctx context.Context, known, runs map[string]bool) ([]string, error) {
	var all []string
	named := map[string]bool{}
	for _, run := range slices.Sorted(maps.Keys(runs)) {
		for info, err := range p.dir.List(ctx, ledger.ManifestsPrefix(run)) {
			if err != nil {
				return nil, ledger.StoreError(job.ErrorBooks, err)
			}
			if known[info.Key] {
				continue
			}
			head, err := ledger.ReadHead(ctx, p.dir, info.Key)
			if err != nil {
				return nil, err
			}
			all = append(all, info.Key)
			for _, before := range head.Names() {
				named[before] = true
			}
		}
	}
	return slices.DeleteFunc(all, func(key string) bool { return named[key] }), nil
}

// fillsGaps reports whether manifests have items that are lost, and no outcomes of others.
func (p *plan) fillsGaps(ctx context.Context, links ledger.List) (bool, error) {
	some, all := false, true
	for _, l := range links {
		for _, s := range l.Spills {
			some = some || slices.ContainsFunc(p.lost, func(g gap) bool { return s.First < g.end && g.first < s.End() })
		}
	}
	end := int64(0) // of the entry before
	err := ledger.Entries(ctx, p.dir, links, func(e ledger.OwnedEntry) error {
		some = true
		all = all && e.First >= end && slices.ContainsFunc(p.lost, func(g gap) bool { return g.first <= e.First && e.End() <= g.end })
		end = e.End()
		return nil
	})
	return some && all, err
}

// recordLost records the items as failed of which nothing is left, so that the books balance and the feed goes on. They
// cannot be run Again: what they were is lost, too.
func (p *plan) recordLost(ctx context.Context) error {
	if len(p.lost) == 0 {
		return nil
	}
	for _, g := range p.lost {
		p.result.Lost += g.end - g.first
		if p.result.Lost < 0 || p.result.Lost > maxLost {
			return ledger.Permanent(job.ErrorInvalid, fmt.Errorf(
				"the feed is to have accepted %d items, and the store knows nothing of more than %d of them: that cannot be; start it with --fresh", p.in.Accepted, maxLost))
		}
	}
	in := wire.CommitFeedInput{Ref: p.in.Ref, Previous: p.in.Resume}
	in.Ref.Sources = p.result.Sources
	if p.result.Heads != nil {
		in.Previous = p.result.Heads
	}
	count := int64(0) // of items whose outcomes are in memory
	for _, whole := range p.lost {
		for g := whole; g.first < whole.end; g.first = g.end {
			g.end = min(whole.end, g.first+lostAtOnce-count)
			e, err := p.lostEntry(g)
			if err != nil {
				return err
			}
			in.Entries, count = append(in.Entries, e), count+g.end-g.first
			if count < lostAtOnce && g.end < p.lost[len(p.lost)-1].end {
				continue
			}
			head, err := Commit(ctx, p.dir, in)
			if err != nil {
				return err
			}
			in.Previous, in.Entries, count = []string{head}, nil, 0
		}
	}
	p.result.Heads = in.Previous
	p.result.Resumed.Failed += p.result.Lost
	p.result.FirstError = ledger.FirstError(p.lostItem(p.lost[0].first))
	return nil
}

// lostEntry returns the outcome of the items of a gap.
func (p *plan) lostEntry(g gap) (wire.FeedEntry, error) {
	count := g.end - g.first
	e := wire.FeedEntry{Entry: wire.Entry{Batch: wire.Batch{First: g.first, Count: count}.Sealed(), Failed: count, Session: g.session}, Inline: &wire.Inline{}}
	for item := g.first; item < g.end; item++ {
		line := ledger.LostLine(p.lostItem(item))
		if p.in.Spec.OnError == job.OnErrorDrop {
			line = ledger.SilentLine(0, p.lostItem(item))
		}
		e.Inline.Notes = append(e.Inline.Notes, line)
	}
	return e, e.Inline.Sums(&e.Entry)
}

func (p *plan) lostItem(item int64) job.Failure {
	return job.Failure{
		Item: item, Source: SourceName(p.in.Ref.Job), Input: json.RawMessage("null"), Kind: job.KindLost,
		Error: job.Error{Type: lostType, Message: lostMessage},
	}
}
