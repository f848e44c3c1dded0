package predict

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// SampleOptions say which items of a job are tried.
type SampleOptions struct {
	// Items is how many, 1 or more; all if there are fewer.
	Items int
	// Parallel is how many calls are made at once, 1 or more.
	Parallel int
	// Seed decides which items.
	Seed uint64
}

// Drawn is a sample of a job's items, as the inputs of a small job. Make one with [Draw].
type Drawn struct {
	// Job is the small job. Its results are not for an output.
	Job job.Spec

	survey   Survey
	spec     job.Spec // of the whole job
	dir      string   // of the inputs
	ordinals []int64  // in the whole job, of the small job's items
	sample   Sample   // its items, and those of them that have failed because they cannot be read
}

// Draw draws a sample of the items that a survey has counted, uniformly from all of them, and copies it to files in a
// new temporary directory, in the items' order and formats. The caller must close it.
func Draw(
	ctx context.Context, access *store.Access, survey Survey, spec job.Spec, o SampleOptions,
) (_ *Drawn, err error) {
	dir, err := os.MkdirTemp("", "stint-sample-*")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the sample: %w", err)
	}
	small := job.Spec{Files: &job.Files{}, RequestRate: spec.RequestRate, TokenRate: spec.TokenRate, LimitBy: spec.LimitBy} // which are a service's
	d := &Drawn{Job: small, survey: survey, spec: spec, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	from := inputs.New(access, nil)
	defer from.Close()
	random := rand.New(rand.NewPCG(o.Seed, o.Seed))
	c := &copier{to: d, left: draw(random, survey.Items, o.Items)}
	defer c.close()
	for i := range survey.table.Sources {
		if err := c.source(ctx, from, i); err != nil {
			return nil, ledger.Plain(err)
		}
	}
	if len(c.left) > 0 {
		return nil, fmt.Errorf("the input changed while it was sampled: it had %d items, and now has %d", survey.Items, c.at)
	}
	return d, c.finish(o.Parallel)
}

// Close removes the sample.
func (d *Drawn) Close() error { return os.RemoveAll(d.dir) }

// draw returns n different ordinals below total, in order; all if there are no more.
func draw(random *rand.Rand, total int64, n int) []int64 {
	if int64(n) >= total {
		all := make([]int64, total)
		for i := range all {
			all[i] = int64(i)
		}
		return all
	}
	// Floyd's: every set of n is as likely as any other.
	chosen := make(map[int64]bool, n)
	ordinals := make([]int64, 0, n)
	for top := total - int64(n); top < total; top++ {
		pick := random.Int64N(top + 1)
		if chosen[pick] {
			pick = top
		}
		chosen[pick] = true
		ordinals = append(ordinals, pick)
	}
	slices.Sort(ordinals)
	return ordinals
}

// copier reads through all sources and copies some of their items to files: neighbours of one shape to the same.
type copier struct {
	to   *Drawn
	left []int64 // ordinals of items yet to come
	at   int64   // ordinal of the next item

	shapes []wire.Shape // of the files
	file   *os.File     // the last one; nil: there is none
	out    *bufio.Writer
	line   []byte
}

// How much of a source is read at a time.
const (
	sampleChunkItems = 4096
	sampleChunkBytes = 4 << 20
)

// source reads one source, or as much of it as is needed.
func (c *copier) source(ctx context.Context, from *inputs.Inputs, index int) error {
	if len(c.left) == 0 {
		return nil
	}
	reader, err := from.DryRange(ctx, c.to.survey.table, index, c.to.survey.sources[index].items)
	if err != nil {
		return err
	}
	defer reader.Close()
	var chunk records.Chunk
	for len(c.left) > 0 {
		err := reader.Next(&chunk, sampleChunkItems, sampleChunkBytes)
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for len(c.left) > 0 && c.left[0] < c.at+int64(len(chunk.Items)) {
			if err := c.copy(&chunk.Items[c.left[0]-c.at], reader.Shape()); err != nil {
				return fmt.Errorf("writing the sample: %w", err)
			}
			c.left = c.left[1:]
		}
		c.at += int64(len(chunk.Items))
		reader.Done(chunk.Items)
	}
	return nil
}

// copy copies the next item of the sample, or counts it as failed if its bytes are not known to be one: written, they
// might swallow the items behind it.
func (c *copier) copy(item *records.Item, shape *wire.Shape) (err error) {
	d := c.to
	d.sample.Items++
	n := len(c.shapes)
	first := n == 0 || !records.Alike(&c.shapes[n-1], shape) || !slices.Equal(c.shapes[n-1].Columns, shape.Columns)
	if c.line, err = records.AppendToFile(shape, c.line[:0], item, first); err != nil {
		fault := calls.InvalidFault(err)
		d.sample.Failed++
		d.sample.FirstError = d.sample.FirstError.First(
			ledger.FirstError(job.Failure{Item: c.left[0], Kind: fault.Kind, Error: fault.Err}))
		return nil
	}
	if first {
		if err := c.open(shape); err != nil {
			return err
		}
	}
	d.ordinals = append(d.ordinals, c.left[0])
	_, err = c.out.Write(c.line)
	return err
}

// open creates the file of the next items.
func (c *copier) open(shape *wire.Shape) error {
	if err := c.end(); err != nil {
		return err
	}
	name := filepath.Join(c.to.dir, fmt.Sprintf("%06d%s", len(c.shapes), records.FileExtension(shape)))
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	c.file, c.out = file, bufio.NewWriter(file)
	c.shapes = append(c.shapes, *shape)
	c.to.Job.Files.Input = append(c.to.Job.Files.Input, name)
	return nil
}

// end completes the last file.
func (c *copier) end() (err error) {
	if c.file == nil {
		return nil
	}
	_, _ = c.out.Write(records.AppendFileEnd(&c.shapes[len(c.shapes)-1], nil)) // Flush returns its error
	err = cmp.Or(c.out.Flush(), c.file.Close())
	c.file = nil
	return err
}

func (c *copier) close() {
	if c.file != nil {
		_ = c.file.Close() // it is of no use any more
	}
}

const (
	// A sample is cut into so many batches of a call of one item and a large one, at best, so that the cost of a call
	// can be separated from that of its items.
	sampleBatches = 12
	// A batch has this many items, if that leaves at least two of them.
	sampleBatch = 8
)

// finish completes the small job. It does with each item what the whole job would, in the same workers, and nothing
// else: it has neither outputs nor hooks, and nothing holds it up.
func (c *copier) finish(parallel int) error {
	if len(c.shapes) == 0 { // the handler is started all the same
		if err := c.open(&wire.Shape{Format: records.Text}); err != nil {
			return err
		}
	}
	if err := c.end(); err != nil {
		return fmt.Errorf("writing the sample: %w", err)
	}
	d := c.to
	spec, s, n := d.spec, &d.Job, len(d.ordinals)
	s.Name, s.Pool, s.Stages, s.Flatten = spec.Name, spec.Pool, spec.Stages, spec.Flatten
	s.Expiry, s.CallTimeout, s.BatchTimeout = spec.Expiry, spec.CallTimeout, spec.BatchTimeout
	s.Attempts, s.ItemAttempts, s.Backoff = spec.Attempts, spec.ItemAttempts, spec.Backoff
	s.Retry, s.NoRetry = spec.Retry, spec.NoRetry
	s.MaxItem, s.Format, s.Files.Delimiter, s.Files.Quote = spec.MaxItem, spec.Format, spec.Files.Delimiter, spec.Files.Quote
	s.Grace = time.Nanosecond
	batches := min(max(n/sampleBatch, 1), max(sampleBatches, parallel))
	s.BatchItems = int64((n + batches - 1) / batches)
	first := &c.shapes[0]
	if !slices.ContainsFunc(c.shapes, func(o wire.Shape) bool { return !records.Alike(first, &o) }) {
		// What the files begin with says nothing more.
		s.Format, s.Files.Delimiter, s.Files.Quote = string(first.Format), first.Delimiter, first.Quote
	}
	return nil
}
