package inputs

import (
	"context"
	"fmt"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// SpoolWriter writes what a spoolReader reads. The caller must end or abort it.
type SpoolWriter struct {
	ctx    context.Context
	dir    store.Dir
	Prefix string
	Bytes  int64        // so far
	w      store.Writer // of the chunk in hand; nil: none
}

// NewSpoolWriter returns a writer of the copy below prefix.
func NewSpoolWriter(ctx context.Context, dir store.Dir, prefix string) *SpoolWriter {
	return &SpoolWriter{ctx: ctx, dir: dir, Prefix: prefix}
}

// Write appends data.
func (c *SpoolWriter) Write(data []byte) error {
	for len(data) > 0 {
		if c.w == nil {
			w, err := c.dir.Create(c.ctx, SpoolKey(c.Prefix, c.Bytes/SpoolChunk))
			if err != nil {
				return ledger.StoreError(job.ErrorOutput, err)
			}
			c.w = w
		}
		n := min(int64(len(data)), SpoolChunk-c.Bytes%SpoolChunk)
		if _, err := c.w.Write(data[:n]); err != nil {
			return ledger.StoreError(job.ErrorOutput, err)
		}
		data = data[n:]
		if c.Bytes += n; c.Bytes%SpoolChunk == 0 {
			if err := c.commit(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *SpoolWriter) commit() error {
	w := c.w
	c.w = nil
	return ledger.StoreError(job.ErrorOutput, w.Commit())
}

// End makes the last chunk durable, and the mark that there are no more.
func (c *SpoolWriter) End() error {
	if c.w != nil {
		if err := c.commit(); err != nil {
			return err
		}
	}
	chunks := (c.Bytes + SpoolChunk - 1) / SpoolChunk
	return ledger.StoreError(job.ErrorOutput, c.dir.Put(c.ctx, spoolEnd(c.Prefix), fmt.Appendf(nil, "%d", chunks)))
}

// Abort discards the chunk that is not durable.
func (c *SpoolWriter) Abort() {
	if c.w != nil {
		c.w.Abort()
	}
}
