package predict

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/reuse"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/data/unique"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"golang.org/x/sync/errgroup"
)

// ReusePlan says for which items a job takes results of an earlier run, and why not for the others.
type ReusePlan struct {
	Items int64 `json:"items"`
	// Reused items are as they were; New ones the earlier run did not have; Changed ones it had with another content;
	// Again are those that it had as they are, and without a result; Invalid are not in their format, and fail.
	Reused  int64 `json:"reused"`
	New     int64 `json:"new"`
	Changed int64 `json:"changed"`
	Again   int64 `json:"again"`
	Invalid int64 `json:"invalid"`
	// Equal are those that are not reused, and equal one before them, if the job calls these once.
	Equal int64 `json:"equal,omitempty"`
	// Of is the earlier run. Gone are those of its results whose items are not there any more.
	Of   wire.ReuseOffer `json:"of"`
	Gone int64           `json:"gone"`
	// Examples has the first item of each kind, by its name here, and of those that are gone the result.
	Examples map[string]string `json:"examples"`
}

// The kinds of items, as examples are named by.
const (
	KindReused  = "reused"
	KindNew     = "new"
	KindChanged = "changed"
	KindAgain   = "again"
	KindInvalid = "invalid"
	KindGone    = "gone"
)

// maxExample is how many bytes of an example are shown.
const maxExample = 100

// PlanReuse looks the items of a job up in what a store has of an earlier run. stdin is the input "-".
func PlanReuse(ctx context.Context, access *store.Access, spec job.Spec, stdin io.Reader) (ReusePlan, error) {
	p, err := planReuse(ctx, access, spec, stdin)
	return p, ledger.Plain(err)
}

func planReuse(ctx context.Context, access *store.Access, spec job.Spec, stdin io.Reader) (ReusePlan, error) {
	own, err := access.Open(ctx, spec.Reuse.Store)
	if err != nil {
		return ReusePlan{}, err
	}
	from, err := access.Open(ctx, spec.Reuse.From)
	if err != nil {
		return ReusePlan{}, err
	}
	l := &lookup{ctx: ctx, examples: map[string]string{}}
	if spec.Unique {
		l.finder = unique.NewFinder("")
		defer l.finder.Close()
	}
	if err := l.begin(reuse.Offer{Own: own, From: from}, spec); err != nil {
		return ReusePlan{}, err
	}
	items := inputs.New(access, stdin)
	defer items.Close()
	table, err := items.List(ctx, nil, wire.PlanInput{Spec: spec})
	if err != nil {
		return ReusePlan{}, err
	}
	for i := range table.Sources {
		if err := l.source(items, table, i); err != nil {
			return ReusePlan{}, err
		}
	}
	return l.end()
}

// lookup looks up all items of a job.
type lookup struct {
	ctx      context.Context
	plan     ReusePlan
	examples map[string]string
	hasher   *reuse.Hasher
	index    *reuse.Index
	cursor   *reuse.Cursor
	seen     reuse.Seen
	finder   *unique.Finder // of items that are not reused; nil: each is called
}

// begin opens what the store has.
func (l *lookup) begin(offer reuse.Offer, spec job.Spec) error {
	of, err := offer.Begin(l.ctx, spec.Name, spec)
	if err != nil {
		return err
	}
	l.plan.Of = *of.Offer()
	if of.From != nil {
		dir := offer.From
		if of.From.Location == offer.Own.Location() {
			dir = offer.Own
		}
		if l.index, err = reuse.Open(l.ctx, dir, of.From); err != nil {
			return err
		}
		l.seen = reuse.NewSeen(of.From.Items)
	}
	l.cursor = l.index.Cursor(l.ctx, 0).Blind()
	l.hasher, err = reuse.NewHasher(of)
	return err
}

// chunk is some items, of one shape.
type chunk struct {
	records.Chunk
	shape *wire.Shape
}

// source looks up the items of a source, while the next ones are read.
func (l *lookup) source(from *inputs.Inputs, table *inputs.Table, index int) error {
	reader, err := from.DryAll(l.ctx, table, index)
	if err != nil {
		return err
	}
	defer reader.Close()
	const held = 3 // chunks
	read, free := make(chan *chunk, held), make(chan *chunk, held)
	for range held {
		free <- &chunk{}
	}
	both, ctx := errgroup.WithContext(l.ctx)
	both.Go(func() error {
		defer close(read)
		return trap.Call("reading items", func() error { return readAll(ctx, reader, free, read) })
	})
	both.Go(func() error { return trap.Call("looking items up", func() error { return l.items(read, free) }) })
	return both.Wait()
}

// readAll reads all items into chunks that are free.
func readAll(ctx context.Context, from *inputs.Range, free <-chan *chunk, read chan<- *chunk) error {
	for {
		select {
		case c := <-free:
			if err := from.Next(&c.Chunk, sampleChunkItems, sampleChunkBytes); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			c.shape = from.Shape()
			read <- c // it has room for all
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// items looks up the items of chunks.
func (l *lookup) items(read <-chan *chunk, free chan<- *chunk) error {
	for c := range read {
		for i := range c.Items {
			if err := l.item(c.shape, &c.Items[i]); err != nil {
				return err
			}
		}
		free <- c // it has room for all
	}
	return nil
}

// item looks up an item.
func (l *lookup) item(shape *wire.Shape, item *records.Item) error {
	l.plan.Items++
	d, ok := l.hasher.Of(shape, item)
	var found reuse.Found
	if ok {
		var err error
		if found, err = l.cursor.Find(d); err != nil {
			return err
		}
	}
	if !ok || found.Match == reuse.New && records.Lines(shape) && records.CheckLine(shape, item) != nil {
		l.note(&l.plan.Invalid, KindInvalid, item)
		return nil
	}
	if l.finder != nil && found.Match != reuse.Same {
		if err := l.finder.Add(shape, item); err != nil {
			return err
		}
	}
	if found.Match != reuse.New && !found.None {
		l.seen.Add(found.Item, 1)
	}
	switch found.Match {
	case reuse.Same:
		l.note(&l.plan.Reused, KindReused, item)
	case reuse.Changed:
		l.note(&l.plan.Changed, KindChanged, item)
	case reuse.Again:
		l.note(&l.plan.Again, KindAgain, item)
	case reuse.New:
		l.note(&l.plan.New, KindNew, item)
	}
	return nil
}

// note counts an item, and keeps the first of its kind.
func (l *lookup) note(count *int64, kind string, item *records.Item) {
	if *count++; *count == 1 {
		l.examples[kind] = example(item.Raw)
	}
}

func example(line []byte) string {
	return text.Cut(strings.ToValidUTF8(strings.TrimSpace(string(line)), "?"), maxExample)
}

// end counts what is gone.
func (l *lookup) end() (ReusePlan, error) {
	var err error
	if l.plan.Equal, err = twins(l.finder); err != nil {
		return l.plan, err
	}
	l.plan.Examples = l.examples
	l.plan.Gone = max(0, l.plan.Of.Items-l.seen.Count())
	if l.plan.Gone == 0 {
		return l.plan, nil
	}
	result, err := l.index.Unseen(l.ctx, l.seen)
	l.examples[KindGone] = example(result)
	return l.plan, err
}
