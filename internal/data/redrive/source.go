package redrive

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// redriveURL stands for the source that the items of a redrive come from.
const redriveURL = "the failed items"

// Source is the source of a redrive: the failed items of a completed job. It copies them from the error
// records into the store, one after the other, and the redrive numbers them anew.
type Source struct {
	access ledger.Access
	inputs *inputs.Inputs
	of     job.Redrive
	again  selection
}

// NewSource returns the source of a redrive of a job.
func NewSource(access ledger.Access, inputs *inputs.Inputs, of job.Redrive) (inputs.Lister, error) {
	again, err := selected(of.Where)
	return &Source{access: access, inputs: inputs, of: of, again: again}, err
}

// selection reports whether the failed item of a line runs again.
type selection func(*wire.ErrorLine) bool

// selected returns the selection of those that an expression selects; without one it is all.
func selected(w job.Where) (selection, error) {
	matches := func(*job.Failure) bool { return true }
	if w != "" {
		var err error
		if matches, err = w.Matcher(); err != nil {
			return nil, ledger.Permanent(job.ErrorInvalid, fmt.Errorf("where: %w", err))
		}
	}
	return func(line *wire.ErrorLine) bool { return line.IsRecord() && !line.Never && matches(&line.Failure) }, nil
}

// List copies the items. Neighbours of one format are one source.
func (l *Source) List(ctx context.Context, dir store.Dir, in wire.PlanInput) (*inputs.Table, error) {
	if err := l.checkOutput(ctx, in.Spec); err != nil {
		return nil, err
	}
	links, err := ledger.Chain(ctx, dir, l.of.Manifests)
	if err != nil {
		return nil, err
	}
	c := &copier{ctx: ctx, again: l.again, dir: dir, prefix: ledger.SpoolsPrefix(in.Ref.Sources), to: &inputs.Table{}}
	if len(links) > 0 {
		if c.from, err = l.inputs.Table(ctx, dir, links[0].Sources); err != nil {
			return nil, err
		}
		c.to.Perm = c.from.Perm
		c.dir = store.Narrow(dir, c.from.Perm)
	}
	c.ordinals = inputs.NewSpoolWriter(ctx, c.dir, path.Join(c.prefix, "ordinals"))
	defer c.abort()
	if err := ledger.Entries(ctx, dir, links, c.entry); err != nil {
		return nil, err
	}
	return c.to, c.end()
}

// checkOutput returns an error if the output of the job has changed, as far as a quick look shows.
func (l *Source) checkOutput(ctx context.Context, spec job.Spec) error {
	if spec.Output == "" || store.IsPrefix(spec.Output) || spec.Split != "" {
		return nil // the parts are what counts
	}
	info, err := l.access.StatInput(ctx, spec.Output)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return outputChanged(l.of.Output, "is gone")
	case err != nil:
		return ledger.StoreError(job.ErrorOutput, err)
	case info.Size != l.of.Output.Bytes:
		return outputChanged(l.of.Output, fmt.Sprintf("has %d bytes", info.Size))
	}
	return nil
}

func outputChanged(before job.Output, now string) error {
	return ledger.Permanent(job.ErrorCorrupt, fmt.Errorf(
		"output %s has changed since the job wrote it: it %s, and had %d bytes, %s; put it back and redrive again, or start the job anew with --fresh",
		before.Location, now, before.Bytes, before.Checksum))
}

// copier copies failed items into the store.
type copier struct {
	ctx      context.Context
	dir      store.Dir
	prefix   string
	again    selection
	from, to *inputs.Table
	items    *inputs.SpoolWriter // of the last source of to; nil: there is none
	ordinals *inputs.SpoolWriter
}

// entry copies those failed items of an entry that run again.
func (c *copier) entry(e ledger.OwnedEntry) error {
	source := &c.from.Sources[e.Source]
	return ledger.EachErrorLine(c.ctx, c.dir, e, func(line wire.ErrorLine) error {
		if !c.again(&line) {
			return nil
		}
		item, err := itemAgain(&line, &source.Shape)
		if err != nil {
			return err
		}
		if err := c.choose(source.Shape); err != nil {
			return err
		}
		shape := &c.to.Sources[len(c.to.Sources)-1].Shape
		shape.MaxItem = max(shape.MaxItem, len(item)) // an object has the header's names, too
		if err := c.items.Write(append(item, '\n')); err != nil {
			return err
		}
		var ordinal [ordinalSize]byte
		binary.BigEndian.PutUint64(ordinal[:], uint64(line.Failure.Item))
		return c.ordinals.Write(ordinal[:])
	})
}

// choose makes the last source one of the shape in which items of the given one are run again, as lines.
func (c *copier) choose(shape wire.Shape) error {
	again := records.AsLines(&shape)
	n := len(c.to.Sources)
	if n > 0 && c.to.Sources[n-1].Shape.Format == again.Format && c.to.Sources[n-1].Shape.Records == again.Records {
		return nil
	}
	if err := c.endSource(); err != nil {
		return err
	}
	prefix := path.Join(c.prefix, fmt.Sprint(n))
	c.items = inputs.NewSpoolWriter(c.ctx, c.dir, prefix)
	c.to.Sources = append(c.to.Sources, wire.Source{
		URL: redriveURL, Spool: prefix, Own: true, Ordinals: c.ordinals.Prefix, Shape: again,
	})
	return nil
}

// endSource ends the last source, if there is one.
func (c *copier) endSource() error {
	if n := len(c.to.Sources); n > 0 {
		c.to.Sources[n-1].Size = c.items.Bytes
		return c.items.End()
	}
	return nil
}

func (c *copier) end() error { return errors.Join(c.endSource(), c.ordinals.End()) }

func (c *copier) abort() {
	if c.items != nil {
		c.items.Abort()
	}
	c.ordinals.Abort()
}

// ordinalSize is the bytes of an ordinal in the list of those that a redrive's items have in the
// completed job: the most significant comes first.
const ordinalSize = 8

// Range reads the items of one batch of a redrive. It names them by their ordinals in the completed
// job.
type Range struct {
	*inputs.Range
	dir  store.Dir
	list string // key prefix of the ordinals
}

// NewRange returns a range whose items have the ordinals of the list in another job.
func NewRange(r *inputs.Range, dir store.Dir, list string) *Range {
	return &Range{r, dir, list}
}

// NotesDrops returns true: Finish merges the results, and inserts them where they belong.
func (r *Range) NotesDrops() bool { return true }

// Original returns an item's ordinal in the completed job.
func (r *Range) Original(ctx context.Context, ordinal int64) (int64, error) {
	at := ordinal * ordinalSize
	body, err := r.dir.Open(context.WithoutCancel(ctx), inputs.SpoolKey(r.list, at/inputs.SpoolChunk), at%inputs.SpoolChunk, ordinalSize)
	if err != nil {
		return 0, ledger.StoreError(job.ErrorInput, err)
	}
	defer body.Close()
	var original [ordinalSize]byte
	if _, err := io.ReadFull(body, original[:]); err != nil {
		return 0, fmt.Errorf("reading which item failed: %w", err)
	}
	return int64(binary.BigEndian.Uint64(original[:])), nil
}

// itemAgain returns the line by which an item of a source is run again.
func itemAgain(l *wire.ErrorLine, shape *wire.Shape) (line []byte, err error) {
	switch {
	case l.Raw != "":
		return []byte(l.Raw), nil
	case !records.TextLines(shape):
		return l.Failure.Input, nil
	}
	var text string
	if json.Unmarshal(l.Failure.Input, &text) == nil {
		return []byte(text), nil
	}
	var encoded struct {
		Base64 []byte `json:"base64"`
	}
	if err := json.Unmarshal(l.Failure.Input, &encoded); err != nil {
		return nil, ledger.Permanent(job.ErrorCorrupt, fmt.Errorf("reading the error record of item %d: %w", l.Failure.Item, err))
	}
	return encoded.Base64, nil
}
