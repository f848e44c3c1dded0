package activities

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// redriveTable copies the failed items of a completed job into the store and returns the key of the
// source table made of them. Items next to each other that are of one format are one source.
func (a *Activities) redriveTable(ctx context.Context, p *planner, in PlanInput) (string, error) {
	if err := a.checkRedriven(ctx, in); err != nil {
		return "", err
	}
	links, err := chain(ctx, p.dir, in.Redrive.Manifests)
	if err != nil {
		return "", err
	}
	c := &copier{ctx: ctx, dir: p.dir, prefix: path.Join(in.Ref.Run, "redrive-"+newToken()), to: &Table{}}
	if len(links) > 0 {
		if c.from, err = a.table(ctx, p.dir, links[0].Sources); err != nil {
			return "", err
		}
	}
	c.ordinals = chunkWriter{ctx: ctx, dir: p.dir, prefix: path.Join(c.prefix, ordinals)}
	defer c.abort()
	if err := entries(ctx, p.dir, links, c.entry); err != nil {
		return "", err
	}
	if err := c.end(); err != nil {
		return "", err
	}
	p.table = c.to
	key := in.Ref.sourcesKey(newToken())
	return key, writeTable(ctx, p.dir, key, p.table)
}

// redrivenBefore reports whether an earlier attempt at the redrive has published the merged output, but was
// ended before it could tell: nothing is left to do but for Finish, which takes it over.
func (a *Activities) redrivenBefore(ctx context.Context, dir store.Dir, in PlanInput) (bool, error) {
	if in.Redrive == nil || len(in.Redrive.Runs) < 2 || in.Ref.Sources != "" {
		return false, nil
	}
	// From now on nobody else publishes.
	if err := dir.Claim(ctx, currentKey, in.Ref.Run); err != nil {
		return false, storeError(job.ErrorOutput, fmt.Errorf("claiming the store: %w", err))
	}
	f := &finish{acts: a, dir: dir, in: FinishInput{Ref: in.Ref, Spec: in.Spec, Redrive: in.Redrive}}
	published, _, err := f.published(ctx)
	return published != nil, err
}

// checkRedriven fails where the output of the job is not what it was, as far as that shows at once.
func (a *Activities) checkRedriven(ctx context.Context, in PlanInput) error {
	if in.Spec.Output == "" || store.IsPrefix(in.Spec.Output) {
		return nil
	}
	info, err := a.opts.Access.StatInput(ctx, in.Spec.Output)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return outputChanged(in.Redrive.Output, "is gone")
	case err != nil:
		return storeError(job.ErrorOutput, err)
	case info.Size != in.Redrive.Output.Bytes:
		return outputChanged(in.Redrive.Output, fmt.Sprintf("has %d bytes", info.Size))
	}
	return nil
}

func outputChanged(before job.Output, now string) error {
	return permanent(job.ErrorCorrupt, fmt.Errorf(
		"output %s is not as the job has left it: it %s, and had %d bytes, %s; put it back and redrive again, or start the job anew with --fresh",
		before.Location, now, before.Bytes, before.Checksum))
}

// copier copies failed items into the store.
type copier struct {
	ctx      context.Context
	dir      store.Dir
	prefix   string
	from, to *Table
	items    chunkWriter // of the last source of to
	ordinals chunkWriter
}

// ordinals names, beside the sources of a redrive, the list of their items' ordinals in the completed
// job: 8 bytes each, the most significant first.
const (
	ordinals    = "ordinals"
	ordinalSize = 8
)

// entry copies those of an entry's failed items that can be run again.
func (c *copier) entry(e ownedEntry) error {
	source := &c.from.Sources[e.Source]
	return eachFailure(c.ctx, c.dir, e, func(line failureLine) error {
		item, ok, err := line.item(source.Shape.Format)
		if err != nil || !ok {
			return err
		}
		if err := c.choose(source.Shape); err != nil {
			return err
		}
		shape := &c.to.Sources[len(c.to.Sources)-1].Shape
		shape.MaxItem = max(shape.MaxItem, len(item)) // an object has the header's names, too
		if err := c.items.write(append(item, '\n')); err != nil {
			return err
		}
		var ordinal [ordinalSize]byte
		binary.BigEndian.PutUint64(ordinal[:], uint64(line.Failure.Item))
		return c.ordinals.write(ordinal[:])
	})
}

// choose makes the last source one of the format in which items of the shape are run again.
func (c *copier) choose(shape records.Shape) error {
	format := formatAgain(shape.Format)
	n := len(c.to.Sources)
	if n > 0 && c.to.Sources[n-1].Shape.Format == format {
		return nil
	}
	if err := c.endSource(); err != nil {
		return err
	}
	prefix := path.Join(c.prefix, fmt.Sprint(n))
	c.items = chunkWriter{ctx: c.ctx, dir: c.dir, prefix: prefix}
	c.to.Sources = append(c.to.Sources, Source{
		URL: redriveURL, Spool: prefix, Shape: records.Shape{Format: format, MaxItem: shape.MaxItem},
	})
	return nil
}

// endSource ends the last source, if there is one.
func (c *copier) endSource() error {
	if n := len(c.to.Sources); n > 0 {
		c.to.Sources[n-1].Size = c.items.bytes
		return c.items.end()
	}
	return nil
}

func (c *copier) end() error { return errors.Join(c.endSource(), c.ordinals.end()) }

func (c *copier) abort() {
	c.items.abort()
	c.ordinals.abort()
}

// chunkWriter writes what a spoolReader reads.
type chunkWriter struct {
	ctx    context.Context
	dir    store.Dir
	prefix string
	bytes  int64        // so far
	w      store.Writer // of the chunk in hand; nil: none
}

func (c *chunkWriter) write(data []byte) error {
	for len(data) > 0 {
		if c.w == nil {
			w, err := c.dir.Create(c.ctx, chunkKey(c.prefix, c.bytes/spoolChunk))
			if err != nil {
				return storeError(job.ErrorOutput, err)
			}
			c.w = w
		}
		n := min(int64(len(data)), spoolChunk-c.bytes%spoolChunk)
		if _, err := c.w.Write(data[:n]); err != nil {
			return storeError(job.ErrorOutput, err)
		}
		data = data[n:]
		if c.bytes += n; c.bytes%spoolChunk == 0 {
			if err := c.commit(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *chunkWriter) commit() error {
	w := c.w
	c.w = nil
	return storeError(job.ErrorOutput, w.Commit())
}

// end makes the last chunk durable, and the mark that there are no more.
func (c *chunkWriter) end() error {
	if c.w != nil {
		if err := c.commit(); err != nil {
			return err
		}
	}
	chunks := (c.bytes + spoolChunk - 1) / spoolChunk
	return storeError(job.ErrorOutput, c.dir.Put(c.ctx, spoolEnd(c.prefix), fmt.Appendf(nil, "%d", chunks)))
}

func (c *chunkWriter) abort() {
	if c.w != nil {
		c.w.Abort()
	}
}

// nameOriginal has a redrive's error name the item by its ordinal in the completed job.
func (e *execution) nameOriginal(first *job.FirstError) error {
	if !e.source.redriven() {
		return nil
	}
	list := path.Join(path.Dir(e.source.Spool), ordinals)
	at := first.Item * ordinalSize
	r, err := e.dir.Open(context.WithoutCancel(e.ctx), chunkKey(list, at/spoolChunk), at%spoolChunk, ordinalSize)
	if err != nil {
		return storeError(job.ErrorInput, err)
	}
	defer r.Close()
	var ordinal [ordinalSize]byte
	if _, err := io.ReadFull(r, ordinal[:]); err != nil {
		return fmt.Errorf("reading which item failed: %w", err)
	}
	first.Item = int64(binary.BigEndian.Uint64(ordinal[:]))
	return nil
}
