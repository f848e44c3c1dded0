package outputs

import (
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Publication is what a job run publishes: its output and its error records. It can be repeated at any
// point, and publishes only while the store names the run as the current one.
type Publication struct {
	Access ledger.Access
	Dir    store.Dir // of the run
	Ref    wire.Ref
	Spec   job.Spec
	Links  ledger.Links // of what is published
	Books  wire.Books   // of links
	// Filled are the manifests of Links, if these have been made of others: see [Publication.Fill].
	Filled []string
	// Earlier are the runs of the job that this one takes the place of: Sweep removes what they have left, even if no
	// manifest names them.
	Earlier []string

	Output  job.Output    // what is published: set by publish
	Errors  wire.SideFile // the same
	Dropped wire.SideFile // the same
	Merged  wire.Merged   // of a redrive
	// Failures are the groups of the error records: set with Errors.
	Failures []job.FailureGroup

	delivered, kept bool         // see [wire.Done]
	accepted        ledger.Links // what the run has accepted, if Links have been made of that
}

// NewPublication opens the store of a run.
func NewPublication(ctx context.Context, access ledger.Access, ref wire.Ref, spec job.Spec) (*Publication, error) {
	dir, err := ledger.OpenStore(ctx, ref, access)
	if err != nil {
		return nil, err
	}
	return &Publication{Access: access, Dir: dir, Ref: ref, Spec: spec, Links: ledger.List{}}, nil
}

// KeepsParts reports whether the parts are kept, instead of being joined into one file: they are the output, or a table
// was made of them, or a device or a pipe has got them, whatever stands in its place now, or will get them. If results
// are split, a redrive needs them: what it merges goes by the order of the items.
func (p *Publication) KeepsParts() bool {
	return !p.form().joined || p.kept || p.maySink()
}

func (p *Publication) isSink(location string) bool {
	return isSink(context.Background(), p.Access, location)
}

// isSink reports whether there is a device or a pipe in the place of a file.
func isSink(ctx context.Context, access ledger.Access, location string) bool {
	if location == "" || store.IsPrefix(location) {
		return false
	}
	sink, err := sinkAt(ctx, access, location)
	return sink && err == nil // what opens it next meets the reason
}

func sinkAt(ctx context.Context, access ledger.Access, location string) (bool, error) {
	dir, name, err := OpenTarget(ctx, access, location, 0)
	if err != nil {
		return false, err
	}
	return store.Sink(dir, name)
}

// maySink reports whether there is a device or a pipe in the output's place, or whether that cannot be told.
func (p *Publication) maySink() bool {
	sink, err := sinkAt(context.Background(), p.Access, p.Spec.Output)
	return sink || err != nil
}

// deliver notes that everything has been published, if that does not show by files.
func (p *Publication) deliver(ctx context.Context) error {
	if !slices.ContainsFunc([]string{p.Spec.Output, p.Spec.Errors, p.Spec.Dropped}, p.isSink) {
		return nil
	}
	p.delivered = true
	return p.WriteDone(ctx)
}

// WriteDone records in the store what is published.
func (p *Publication) WriteDone(ctx context.Context) error {
	d := wire.Done{
		Output: p.Output, Errors: p.Errors, Dropped: p.Dropped, Failures: p.Failures, Books: p.Books, Delivered: p.delivered, Kept: p.kept,
		Filled: p.Filled, Merged: p.Merged,
	}
	return ledger.WriteDone(ctx, &d, p.Dir, p.Ref)
}

// OpenTarget opens the directory of a file, and returns the file's name there. A file written there gets
// no access rights other than perm, if that is not 0.
func OpenTarget(ctx context.Context, access ledger.Access, location string, perm fs.FileMode) (store.Dir, string, error) {
	where, name, err := store.Split(location)
	if err != nil {
		return nil, "", ledger.Permanent(job.ErrorOutput, err)
	}
	to, err := access.Open(ctx, where)
	if err != nil {
		return nil, "", ledger.StoreError(job.ErrorOutput, err)
	}
	return store.Narrow(to, perm), name, nil
}

// Publish publishes the output and the files beside it, unless they are there already. joiner may have joined a
// part of the output.
func (p *Publication) Publish(ctx context.Context, joiner Joiner) error {
	return Once(ctx, p.adopt, func(ctx context.Context) error {
		return p.PublishNew(ctx, func(ctx context.Context) (Begun, error) { return joiner.Take(ctx, p.Ref.Run, p.eachEntry) })
	})
}

// Fill has items get outcomes of equal ones: fill makes manifests of those that the run has accepted, and returns their
// heads. If a run has published what was made before, it takes that: what it was made of may be gone.
func (p *Publication) Fill(ctx context.Context, fill func(context.Context) ([]string, error)) error {
	err := Once(ctx, p.adoptFilled, func(ctx context.Context) (err error) {
		p.Filled, err = fill(ctx)
		return err
	})
	if err == nil {
		p.accepted, p.Links = p.Links, ledger.Along(p.Dir, p.Filled)
	}
	return err
}

func (p *Publication) adoptFilled(ctx context.Context) (bool, error) {
	return p.anyDone(ctx, func(published *wire.Done) (bool, error) {
		if len(published.Filled) == 0 || published.Books.Items != p.Books.Items {
			return false, nil
		}
		p.Filled = published.Filled
		return true, nil
	})
}

// eachLink calls fn with all manifests: those of what is published, and before them those that the run has accepted, if
// these are others.
func (p *Publication) eachLink(ctx context.Context, fn func(ledger.Link) error) error {
	if p.accepted != nil {
		if err := p.accepted.Each(ctx, fn); err != nil {
			return err
		}
	}
	return p.Links.Each(ctx, fn)
}

// Once calls publish unless adopt finds its work done. If publish fails for good, adopt looks again:
// another execution, one that was given up but continued, may have published meanwhile, and have removed
// what this one still had to read.
func Once(ctx context.Context, adopt func(context.Context) (bool, error), publish func(context.Context) error) error {
	// Where access is denied, as by a bucket that may not be listed and does not have the output yet, publishing shows
	// more.
	if done, err := adopt(ctx); done || err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	err := publish(ctx)
	if judged, ok := errors.AsType[*ledger.Judged](err); !ok || !judged.NonRetryable() {
		return err
	}
	if done, adoptErr := adopt(ctx); done || adoptErr != nil && !errors.Is(adoptErr, fs.ErrPermission) {
		return adoptErr // not known yet, or done
	}
	return err
}

// adopt takes over what a run has published already, if one has.
func (p *Publication) adopt(ctx context.Context) (bool, error) {
	return p.anyDone(ctx, func(published *wire.Done) (bool, error) {
		if published.Books != p.Books {
			return false, nil
		}
		if same, err := p.Matches(ctx, published); err != nil || !same {
			return false, err
		}
		return true, p.RestoreSides(ctx, published)
	})
}

// anyDone reports whether fn takes what one of the runs has published.
func (p *Publication) anyDone(ctx context.Context, fn func(*wire.Done) (taken bool, err error)) (bool, error) {
	runs, err := p.runs(ctx)
	if err != nil {
		return false, err
	}
	for _, run := range runs {
		published, err := ledger.ReadDone(ctx, p.Dir, run)
		if err != nil {
			return false, err
		}
		if published == nil {
			continue
		}
		if taken, err := fn(published); taken || err != nil {
			return taken, err
		}
	}
	return false, nil
}

// PublishNew publishes the output and the files beside it. If the output is a file, begin returns what is joined
// of it already.
func (p *Publication) PublishNew(ctx context.Context, begin func(context.Context) (Begun, error)) error {
	if p.Books.Waiting > 0 {
		return ledger.Unbalanced("%d items wait for the outcome of an equal one", p.Books.Waiting)
	}
	p.Output = job.Output{Location: p.Spec.Output}
	publishSides, giveUp, err := p.writeSides(ctx, p.errorsSide(), p.droppedSide())
	if err != nil {
		return err
	}
	defer giveUp()
	return p.form().publish(p, ctx, publishSides, begin)
}

// runs returns those that may have published the output: this one, and those that it continues, because a
// stop may have come after one had published and before it could report that.
func (p *Publication) runs(ctx context.Context) ([]string, error) {
	runs, err := p.recorded(ctx)
	return append([]string{p.Ref.Run}, slices.DeleteFunc(runs, func(run string) bool { return run == p.Ref.Run })...), err
}

// recorded returns the runs that have written the manifests of what the run has accepted.
func (p *Publication) recorded(ctx context.Context) (runs []string, err error) {
	accepted := p.Links
	if p.accepted != nil {
		accepted = p.accepted
	}
	err = accepted.Each(ctx, func(l ledger.Link) error {
		if !slices.Contains(runs, l.Run) {
			runs = append(runs, l.Run)
		}
		return nil
	})
	return runs, err
}

// Matches reports whether the output that DONE names exists, byte for byte. An error says that this is
// not known: taken for false, it would have the output made anew from parts that may be gone.
func (p *Publication) Matches(ctx context.Context, d *wire.Done) (bool, error) {
	if !p.form().file {
		return true, nil // the parts stay where they are; DONE comes after the list of them
	}
	if p.isSink(p.Spec.Output) {
		return d.Delivered, nil
	}
	to, name, err := OpenTarget(ctx, p.Access, p.Spec.Output, p.Ref.Perm)
	if err != nil {
		return false, err
	}
	sum, bytes, err := ledger.Checksum(ctx, to, name, io.Discard)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return bytes == d.Output.Bytes && ledger.FormatSum(sum) == d.Output.Checksum, ledger.StoreError(job.ErrorOutput, err)
}

// missing reports whether an error says that there is no such object. A bucket that may not be listed denies access
// instead.
func missing(in store.Dir, err error) bool {
	_, local := in.Local()
	return errors.Is(err, fs.ErrNotExist) || !local && errors.Is(err, fs.ErrPermission)
}

// publishFile joins the parts into one file, and publishes it after the files beside it.
func (p *Publication) publishFile(ctx context.Context, publishSides func(context.Context) error, begin func(context.Context) (Begun, error)) error {
	to, name, err := OpenTarget(ctx, p.Access, p.Spec.Output, p.Ref.Perm)
	if err != nil {
		return err
	}
	opts := store.JoinOptions{Size: p.Books.Bytes, Scratch: Scratch(p.Dir, p.Ref), Encode: Encoding(p.Spec.Output), Publish: func(joined store.JoinResult, commit func() error) error {
		p.Output.Bytes, p.Output.Checksum = joined.Bytes, ledger.FormatSum(joined.Sum)
		if err := p.WriteDone(ctx); err != nil {
			return err
		}
		return ledger.WhileCurrent(ctx, p.Ref, p.Dir, func(ctx context.Context) error {
			if err := publishSides(ctx); err != nil {
				return err
			}
			if err := commit(); err != nil {
				return err
			}
			return p.deliver(ctx)
		})
	}}
	p.kept = p.maySink()
	joined, err := begin(ctx)
	if err != nil {
		return err
	}
	if joined.End != nil {
		defer joined.End()
	}
	opts.Begun = joined.Joining
	_, err = store.Join(ctx, p.Dir, p.pieces(ctx, joined.Parts), to, name, opts)
	return ledger.StoreError(job.ErrorOutput, err)
}

// pieces gives the result objects in order, without those of the first parts.
func (p *Publication) pieces(ctx context.Context, skip int) iter.Seq2[store.Piece, error] {
	return func(yield func(store.Piece, error) bool) {
		if skip == AllParts {
			return
		}
		err := p.eachEntry(ctx, func(e ledger.OwnedEntry) bool {
			if skip > 0 {
				skip--
				return true
			}
			return e.Bytes == 0 || yield(ledger.PieceOf(e.Entry, e.Owner), nil)
		})
		if err != nil {
			yield(store.Piece{}, err)
		}
	}
}

// eachEntry calls fn with the accepted entries in order until it returns false.
func (p *Publication) eachEntry(ctx context.Context, fn func(ledger.OwnedEntry) bool) error {
	return ledger.EntriesUntil(ctx, p.Dir, p.Links, fn)
}

// PartsList is the name of the list of parts in an output that keeps them.
const PartsList = "manifest.jsonl"

// publishParts verifies the parts in place, and publishes the list of them after the files beside them and those that
// the results are split into.
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
