package ledger

import (
	"context"
	"fmt"
	"hash/crc32"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// PartWriter writes one object of a part; an object that would be empty is never made.
type PartWriter struct {
	Dir   store.Dir
	Key   string
	Bulk  bool // it will not be read soon
	w     store.Writer
	Bytes int64
	Sum   uint32
}

// Write appends data.
func (p *PartWriter) Write(ctx context.Context, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if p.w == nil {
		create := p.Dir.Create
		if p.Bulk {
			create = func(ctx context.Context, key string) (store.Writer, error) { return store.CreateBulk(ctx, p.Dir, key) }
		}
		w, err := create(ctx, p.Key)
		if err != nil {
			return StoreError(job.ErrorOutput, err)
		}
		p.w = w
	}
	if _, err := p.w.Write(data); err != nil {
		return StoreError(job.ErrorOutput, err)
	}
	p.Bytes += int64(len(data))
	p.Sum = crc32.Update(p.Sum, wire.CRC32C, data)
	return nil
}

// Commit makes the object durable, if there is one.
func (p *PartWriter) Commit() error {
	if p.w == nil {
		return nil
	}
	return StoreError(job.ErrorOutput, p.w.Commit())
}

// Abort discards the object. After Commit it does nothing.
func (p *PartWriter) Abort() {
	if p.w != nil {
		p.w.Abort()
	}
}

// Check returns a permanent error unless these are the outcomes that the entry was made with.
func CheckInline(i *wire.Inline, e wire.Entry) error {
	got := e
	if err := i.Sums(&got); err != nil {
		return err
	}
	if got != e {
		return Permanent(job.ErrorCorrupt, fmt.Errorf("the outcomes of %s are not what was accepted: they have %d and %d bytes, %s and %s, and had %d and %d bytes, %s and %s",
			e.Batch, got.Bytes, got.ErrBytes, FormatSum(got.Sum), FormatSum(got.ErrSum), e.Bytes, e.ErrBytes, FormatSum(e.Sum), FormatSum(e.ErrSum)))
	}
	if _, err := i.Outcomes(e.Count); err != nil {
		return Permanent(job.ErrorCorrupt, err)
	}
	return nil
}
