package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// FinishInput asks for a job's output.
type FinishInput struct {
	Ref       Ref      `json:"ref"`
	Spec      job.Spec `json:"spec"`
	Manifests []string `json:"manifests"` // heads of the chain
	Planned   int64    `json:"planned"`   // items that must be accounted for
	// Redrive, where it is set, has what the manifests account for merged into that job's output.
	Redrive *job.Redrive `json:"redrive,omitempty"`
}

// FinishResult tells where the output is.
type FinishResult struct {
	Output job.Output `json:"output"`
	Books  Books      `json:"books"`
	// After a redrive also: how many items it has run again, the manifests of the merged state, and the
	// first of the errors that remain.
	Redriven   int64           `json:"redriven,omitempty"`
	Manifests  []string        `json:"manifests,omitempty"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
}

// Finish checks the books, verifies every part, and publishes the output: one file joined from the
// parts, or the parts with a list of them. It can be repeated at any point, and publishes only while
// the store names its own run as the current one. What its run has left in the store and nothing
// needs any more is removed at the end.
func (a *Activities) Finish(ctx context.Context, in FinishInput) (FinishResult, error) {
	defer beating(ctx)()
	dir, err := a.opts.Access.Open(ctx, in.Ref.Store)
	if err != nil {
		return FinishResult{}, storeError(job.ErrorOutput, err)
	}
	if in.Redrive != nil {
		return a.finishRedrive(ctx, &finish{acts: a, in: in, dir: dir})
	}
	links, err := chain(ctx, dir, in.Manifests)
	if err != nil {
		return FinishResult{}, err
	}
	f := &finish{acts: a, in: in, dir: dir, links: links}
	if f.books, err = f.checkBooks(ctx); err != nil {
		return FinishResult{}, err
	}
	if err := f.publish(ctx); err != nil {
		return FinishResult{}, err
	}
	// What is published is done, whatever happens now: a stop comes too late.
	if err := f.sweep(context.WithoutCancel(ctx)); err != nil {
		return FinishResult{}, err
	}
	return FinishResult{Output: f.output, Books: f.books}, nil
}

type finish struct {
	acts   *Activities
	in     FinishInput
	dir    store.Dir
	links  []link
	books  Books
	output job.Output
	redriven
}

// done is the object DONE: what has been published.
type done struct {
	Output job.Output `json:"output"`
	Books  Books      `json:"books"`
	mergedState
}

// publish brings about the output and the errors, unless they are there already.
func (f *finish) publish(ctx context.Context) error {
	for _, run := range f.runs() {
		published, err := f.readDone(ctx, run)
		if err != nil {
			return err
		}
		if published != nil && published.Books.Items == f.books.Items && f.matches(ctx, published) {
			f.output = published.Output
			return nil
		}
	}
	return f.publishNew(ctx)
}

func (f *finish) publishNew(ctx context.Context) error {
	f.output = job.Output{Location: f.in.Spec.Output}
	publishErrors, giveUp, err := f.writeErrors(ctx)
	if err != nil {
		return err
	}
	defer giveUp()
	if f.in.Spec.Output == "" || store.IsPrefix(f.in.Spec.Output) {
		return f.publishParts(ctx, publishErrors)
	}
	return f.publishFile(ctx, publishErrors)
}

// runs are those that may have published the output: this one, and those that it goes on from, where
// a stop has come between their publishing it and telling of it.
func (f *finish) runs() []string {
	runs := []string{f.in.Ref.Run}
	for _, l := range f.links {
		if !slices.Contains(runs, l.Run) {
			runs = append(runs, l.Run)
		}
	}
	return runs
}

func (f *finish) readDone(ctx context.Context, run string) (*done, error) {
	key := Ref{Run: run}.doneKey()
	data, err := f.dir.Get(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, storeError(job.ErrorOutput, err)
	}
	var d done
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, permanent(job.ErrorCorrupt, fmt.Errorf("reading %s: %w", key, err))
	}
	return &d, nil
}

// matches reports whether the output that DONE tells of is there, byte for byte.
func (f *finish) matches(ctx context.Context, d *done) bool {
	if f.in.Spec.Output == "" || store.IsPrefix(f.in.Spec.Output) {
		return true // the parts stay where they are; DONE comes after the list of them
	}
	to, name, err := f.openTarget(ctx, f.in.Spec.Output)
	if err != nil {
		return false
	}
	sum, bytes, err := checksum(ctx, to, name, io.Discard)
	return err == nil && bytes == d.Output.Bytes && formatSum(sum) == d.Output.Checksum
}

func (f *finish) openTarget(ctx context.Context, location string) (store.Dir, string, error) {
	where, name, err := store.Split(location)
	if err != nil {
		return nil, "", permanent(job.ErrorOutput, err)
	}
	to, err := f.acts.opts.Access.Open(ctx, where)
	if err != nil {
		return nil, "", storeError(job.ErrorOutput, err)
	}
	return to, name, nil
}

// publishFile joins the parts into one file, and publishes it after the errors.
func (f *finish) publishFile(ctx context.Context, publishErrors func(context.Context) error) error {
	to, name, err := f.openTarget(ctx, f.in.Spec.Output)
	if err != nil {
		return err
	}
	opts := store.JoinOptions{Size: f.books.Bytes, Scratch: scratch(f.dir, f.in.Ref), Publish: func(joined store.JoinResult, commit func() error) error {
		f.output.Bytes, f.output.Checksum = joined.Bytes, formatSum(joined.Sum)
		if err := f.writeDone(ctx); err != nil {
			return err
		}
		return f.whileCurrent(ctx, func(ctx context.Context) error {
			if err := publishErrors(ctx); err != nil {
				return err
			}
			return commit()
		})
	}}
	if f.merged != nil {
		opts.Begun = f.merged
		_, err = store.Join(ctx, f.dir, noPieces, to, name, opts)
		return storeError(job.ErrorOutput, err)
	}
	joined, err := f.takeEarly(ctx)
	if err != nil {
		return err
	}
	skip := 0
	if joined != nil {
		defer joined.cancel()
		opts.Begun, skip = joined.joining, joined.joined.parts
	}
	_, err = store.Join(ctx, f.dir, f.pieces(ctx, skip), to, name, opts)
	return storeError(job.ErrorOutput, err)
}

// whileCurrent runs fn while no newer run has claimed the store.
func (f *finish) whileCurrent(ctx context.Context, fn func(context.Context) error) error {
	return storeError(job.ErrorOutput, f.dir.Guard(ctx, currentKey, f.in.Ref.Run, fn))
}

func (f *finish) writeDone(ctx context.Context) error {
	data, err := json.Marshal(done{Output: f.output, Books: f.books, mergedState: f.mergedState})
	if err != nil {
		return fmt.Errorf("writing DONE: %w", err)
	}
	return storeError(job.ErrorOutput, f.dir.Put(ctx, f.in.Ref.doneKey(), data))
}

// pieces gives the result objects in order, but for the first ones.
func (f *finish) pieces(ctx context.Context, skip int) iter.Seq2[store.Piece, error] {
	return func(yield func(store.Piece, error) bool) {
		err := f.eachEntry(ctx, func(e ownedEntry) bool {
			if skip > 0 {
				skip--
				return true
			}
			return e.Bytes == 0 || yield(e.piece(e.run), nil)
		})
		if err != nil {
			yield(store.Piece{}, err)
		}
	}
}

// eachEntry calls fn with the accepted entries in order until it returns false.
func (f *finish) eachEntry(ctx context.Context, fn func(ownedEntry) bool) error {
	errEnough := errors.New("no more wanted")
	err := entries(ctx, f.dir, f.links, func(e ownedEntry) error {
		if !fn(e) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// partsList is the name of the list of parts in an output that keeps them.
const partsList = "manifest.jsonl"

// publishParts verifies the parts where they lie, and publishes the list of them after the errors.
func (f *finish) publishParts(ctx context.Context, publishErrors func(context.Context) error) error {
	var list strings.Builder
	lines := json.NewEncoder(&list)
	total := crc32.New(castagnoli)
	err := entries(ctx, f.dir, f.links, func(e ownedEntry) error {
		if e.Bytes == 0 {
			return nil
		}
		key := resultsKey(e.run, e.Entry)
		gotSum, gotBytes, err := checksum(ctx, f.dir, key, total)
		if err := verified(key, gotBytes, e.Bytes, gotSum, e.Sum, err); err != nil {
			return err
		}
		f.output.Bytes += e.Bytes
		return lines.Encode(listedPart{Part: key, First: e.First, Items: e.Count, Results: e.OK - e.Dropped, Bytes: e.Bytes, Checksum: formatSum(e.Sum)})
	})
	if err != nil {
		return err
	}
	f.output.Checksum = formatSum(total.Sum32())
	return f.whileCurrent(ctx, func(ctx context.Context) error {
		if err := publishErrors(ctx); err != nil {
			return err
		}
		if err := f.dir.Put(ctx, partsList, []byte(list.String())); err != nil {
			return err
		}
		return f.writeDone(ctx)
	})
}

// listedPart is a line of the list of parts: the parts in this order are the output.
type listedPart struct {
	Part     string `json:"part"`
	First    int64  `json:"first"`
	Items    int64  `json:"items"`
	Results  int64  `json:"results"`
	Bytes    int64  `json:"bytes"`
	Checksum string `json:"checksum"`
}

// writeErrors writes the file of error records and returns what makes it visible, or, where there
// are none, removes one of an earlier run; and what gives it up otherwise.
func (f *finish) writeErrors(ctx context.Context) (publish func(context.Context) error, giveUp func(), err error) {
	location := f.in.Spec.Errors
	if location == "" {
		return func(context.Context) error { return nil }, func() {}, nil
	}
	to, name, err := f.openTarget(ctx, location)
	if err != nil {
		return nil, nil, err
	}
	if f.books.ErrBytes == 0 {
		return func(ctx context.Context) error { return to.Delete(ctx, name) }, func() {}, nil
	}
	w, err := to.Create(ctx, name)
	if err != nil {
		return nil, nil, storeError(job.ErrorOutput, err)
	}
	if err := copyErrors(ctx, f.dir, f.links, w); err != nil {
		w.Abort()
		return nil, nil, err
	}
	f.output.Errors = location
	return func(context.Context) error { return w.Commit() }, w.Abort, nil
}

// sweep removes what the run has left behind: parts of executions that were not accepted, and
// what is in the output by now. Manifests and error parts stay, for those who redrive the job.
func (f *finish) sweep(ctx context.Context) error {
	joined := f.in.Spec.Output != "" && !store.IsPrefix(f.in.Spec.Output)
	kept := map[string]struct{}{}
	err := entries(ctx, f.dir, f.links, func(e ownedEntry) error {
		if e.ErrBytes > 0 {
			kept[errorsKey(e.run, e.Entry)] = struct{}{}
		}
		if !joined {
			kept[resultsKey(e.run, e.Entry)] = struct{}{}
			return nil
		}
		if e.run != f.in.Ref.Run && e.Bytes > 0 {
			return f.dir.Delete(ctx, resultsKey(e.run, e.Entry))
		}
		return nil
	})
	if err != nil {
		return storeError(job.ErrorOutput, err)
	}
	for _, l := range f.links {
		kept[l.key] = struct{}{}
		kept[l.Sources] = struct{}{}
	}
	kept[f.in.Ref.doneKey()] = struct{}{}
	kept[f.in.Ref.Sources] = struct{}{}
	_, err = f.dir.Sweep(ctx, path.Clean(f.in.Ref.Run)+"/", func(key string) bool {
		_, keep := kept[key]
		return keep
	})
	if err != nil {
		return storeError(job.ErrorOutput, err)
	}
	return f.sweepEarlier(ctx)
}

// sweepEarlier removes what the runs that this one goes on from have left unfinished.
func (f *finish) sweepEarlier(ctx context.Context) error {
	swept := map[string]bool{f.in.Ref.Run: true}
	for _, l := range f.links {
		if swept[l.Run] {
			continue
		}
		swept[l.Run] = true
		if _, err := f.dir.Sweep(ctx, path.Clean(l.Run)+"/", nil); err != nil {
			return storeError(job.ErrorOutput, err)
		}
	}
	return nil
}
