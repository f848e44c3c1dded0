package feeds

import (
	"context"
	"encoding/json"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
)

// lostType is the type of the error of an item that is lost.
const lostType = "Lost"

// lostMessage is what people read about such an item. Its legs had it in their histories, which the server removes after its retention.
const lostMessage = "an earlier run of the feed has accepted the item, and neither an outcome nor a copy of it is left: " +
	"the history of its leg was gone when the feed was resumed; put it again"

// recordLost records the items as failed of which nothing is left, so that the books balance and the feed goes on. They cannot be run
// again: what they were is lost, too.
func (p *plan) recordLost(ctx context.Context) error {
	if len(p.lost) == 0 {
		return nil
	}
	ref := p.in.Ref
	ref.Sources = p.result.Sources
	in := CommitInput{Ref: ref, Previous: p.in.Resume}
	for _, g := range p.lost {
		e, err := p.lostEntry(g)
		if err != nil {
			return err
		}
		in.Entries = append(in.Entries, e)
		p.result.Lost += e.Count
	}
	head, err := Commit(ctx, p.dir, in)
	if err != nil {
		return err
	}
	p.result.Heads = []string{head}
	p.result.Resumed.Failed += p.result.Lost
	p.result.FirstError = ledger.FirstError(p.lostItem(p.lost[0].first))
	return nil
}

// lostEntry is the outcome of the items of a gap.
func (p *plan) lostEntry(g gap) (Entry, error) {
	count := g.end - g.first
	e := Entry{Entry: ledger.Entry{Batch: protocol.Batch{First: g.first, Count: count}, Failed: count, Session: g.session}, Inline: &ledger.Inline{}}
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
