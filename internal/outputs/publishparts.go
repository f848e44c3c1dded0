package outputs

import (
	"context"
	"encoding/json"
	"hash/crc32"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/job"
)

// PartsList is the name of the list of parts in an output that keeps them.
const PartsList = "manifest.jsonl"

// publishParts verifies the parts in place, and publishes the list of them after the errors.
func (p *Publication) publishParts(ctx context.Context, publishErrors func(context.Context) error) error {
	list, err := p.Dir.Create(ctx, PartsList)
	if err != nil {
		return ledger.StoreError(job.ErrorOutput, err)
	}
	defer list.Abort() // does nothing after a commit
	lines := json.NewEncoder(list)
	total := crc32.New(ledger.CRC32C)
	err = ledger.Entries(ctx, p.Dir, p.Links, func(e ledger.OwnedEntry) error {
		if e.Bytes == 0 {
			return nil
		}
		key := ledger.ResultsKey(e.Owner, e.Entry)
		gotSum, gotBytes, err := ledger.Checksum(ctx, p.Dir, key, total)
		if err := ledger.Verified(key, gotBytes, e.Bytes, gotSum, e.Sum, err); err != nil {
			return err
		}
		p.Output.Bytes += e.Bytes
		return lines.Encode(ListedPart{Part: key, First: e.First, Items: e.Count, Results: e.OK - e.Dropped, Bytes: e.Bytes, Checksum: ledger.FormatSum(e.Sum)})
	})
	if err != nil {
		return ledger.StoreError(job.ErrorOutput, err)
	}
	p.Output.Checksum = ledger.FormatSum(total.Sum32())
	return p.Ref.WhileCurrent(ctx, p.Dir, func(ctx context.Context) error {
		if err := publishErrors(ctx); err != nil {
			return err
		}
		if err := list.Commit(); err != nil {
			return err
		}
		return p.WriteDone(ctx)
	})
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
