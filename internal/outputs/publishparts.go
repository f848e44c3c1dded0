package outputs

import (
	"context"
	"encoding/json"
	"hash/crc32"
	"io"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// PartsList is the name of the list of parts in an output that keeps them.
const PartsList = "manifest.jsonl"

// publishParts verifies the parts in place, and publishes the list of them after the files beside them and those that the results
// are split into.
func (p *Publication) publishParts(ctx context.Context, publishSides func(context.Context) error, _ func(context.Context) (Begun, error)) error {
	split, err := p.newSplitter(ctx)
	if err != nil {
		return err
	}
	defer split.close(context.WithoutCancel(ctx))
	list, err := store.CreateUnchanged(ctx, p.Dir, PartsList)
	if err != nil {
		return ledger.StoreError(job.ErrorOutput, err)
	}
	defer list.Abort() // does nothing after a commit
	lines := json.NewEncoder(list)
	total := crc32.New(wire.CRC32C)
	err = ledger.Entries(ctx, p.Dir, p.Links, func(e ledger.OwnedEntry) error {
		if e.Bytes == 0 {
			return nil
		}
		if err := p.verifyPart(ctx, split, e, total); err != nil {
			return err
		}
		p.Output.Bytes += e.Bytes
		results := e.OK - e.Dropped
		if p.Spec.Flatten {
			results = e.Lines
		}
		return lines.Encode(ListedPart{
			Part: ledger.ResultsKey(e.Owner, e.Entry), First: e.First, Items: e.Count, Results: results, Bytes: e.Bytes, Checksum: ledger.FormatSum(e.Sum),
		})
	})
	if err != nil {
		return ledger.StoreError(job.ErrorOutput, err)
	}
	p.Output.Checksum = ledger.FormatSum(total.Sum32())
	p.Output.Split, p.Output.Files = p.Spec.SplitField(), split.count()
	if err = split.write(ctx); err == nil {
		err = ledger.WhileCurrent(ctx, p.Ref, p.Dir, func(ctx context.Context) error {
			if err := publishSides(ctx); err != nil {
				return err
			}
			if err := split.publish(ctx); err != nil {
				return err
			}
			if err := list.Commit(); err != nil {
				return err
			}
			p.delivered = true
			return p.WriteDone(ctx)
		})
	}
	return split.overtaken(ctx, err)
}

// verifyPart verifies the results of a part, adds them to also, and splits them if that is wanted.
func (p *Publication) verifyPart(ctx context.Context, split *splitter, e ledger.OwnedEntry, also io.Writer) error {
	if split != nil {
		return split.part(ctx, e, also)
	}
	key := ledger.ResultsKey(e.Owner, e.Entry)
	gotSum, gotBytes, err := ledger.Checksum(ctx, p.Dir, key, also)
	return ledger.Verified(key, gotBytes, e.Bytes, gotSum, e.Sum, err)
}

// ListedPart is a line of the list of parts: the parts in this order are the output.
type ListedPart struct {
	Part     string `json:"part"`
	First    int64  `json:"first"`
	Items    int64  `json:"items"`
	Results  int64  `json:"results"`
	Bytes    int64  `json:"bytes"`
	Checksum string `json:"checksum"`
}
