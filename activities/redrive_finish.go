package activities

import (
	"context"
	"iter"
	"maps"
	"path"
	"slices"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// redriven is what a Finish that merges has besides.
type redriven struct {
	mergedState
	merged *store.Joining // the output, where it is one file
}

// mergedState tells of a merged state, in DONE.
type mergedState struct {
	Redriven   int64           `json:"redriven,omitempty"` // items run again
	Manifests  []string        `json:"manifests,omitempty"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
	// Before lists the runs that have made the state before.
	Before []string `json:"before,omitempty"`
}

// finishRedrive merges what the items run again have come to into the output of the completed job,
// which stays as it is until the merged one takes its place. The merged state has manifests and error
// parts of its own, so that at the end nothing is kept of the state before but parts that have not
// changed. As any Finish it can be repeated at any point.
func (a *Activities) finishRedrive(ctx context.Context, f *finish) (FinishResult, error) {
	published, err := f.adopt(ctx)
	if err == nil && !published {
		err = f.mergeAndPublish(ctx)
	}
	if err == nil { // what is published is done: a stop comes too late
		err = f.sweepMerged(context.WithoutCancel(ctx))
	}
	if err != nil {
		return FinishResult{}, err
	}
	return FinishResult{Output: f.output, Books: f.books, Redriven: f.Redriven, Manifests: f.Manifests, FirstError: f.FirstError}, nil
}

// published finds the merged state, if it has been published already: by this run, or by an earlier attempt
// that was ended before it could tell.
func (f *finish) published(ctx context.Context) (d *done, run string, err error) {
	attempts := f.in.Redrive.Runs
	for _, run := range slices.Concat([]string{f.in.Ref.Run}, attempts[min(1, len(attempts)):]) {
		d, err := f.readDone(ctx, run)
		if err != nil || d != nil && f.matches(ctx, d) {
			return d, run, err
		}
	}
	return nil, "", nil
}

// adopt goes on from a merged state that has been published already, if there is one.
func (f *finish) adopt(ctx context.Context) (bool, error) {
	before, run, err := f.published(ctx)
	if err != nil || before == nil {
		return false, err
	}
	if f.links, err = chain(ctx, f.dir, before.Manifests); err != nil {
		return false, err
	}
	f.output, f.books, f.mergedState = before.Output, before.Books, before.mergedState
	// Where the redrive has given no new result the file was the same before: the errors may be the old ones.
	publishErrors, giveUp, err := f.writeErrors(ctx)
	if err != nil {
		return false, err
	}
	defer giveUp()
	if err := f.whileCurrent(ctx, publishErrors); err != nil || run == f.in.Ref.Run {
		return true, err
	}
	f.Before = append(f.Before, run)
	return true, f.writeDone(ctx)
}

func (f *finish) mergeAndPublish(ctx context.Context) error {
	links, err := chain(ctx, f.dir, f.in.Manifests)
	if err != nil {
		return err
	}
	f.links = links
	again, err := f.checkBooks(ctx)
	if err != nil {
		return err
	}
	before, err := chain(ctx, f.dir, f.in.Redrive.Manifests)
	if err != nil {
		return err
	}
	m := &merger{acts: f.acts, dir: f.dir, ref: f.in.Ref, outcomes: newOutcomes(ctx, f.dir, links)}
	defer m.outcomes.close()
	if err := f.openOutput(ctx, m, again.Bytes); err != nil {
		return err
	}
	defer m.out.close()
	if f.merged != nil {
		defer f.merged.Abort()
	}
	if err := f.merge(ctx, m, before); err != nil {
		return err
	}
	f.Redriven, f.Manifests, f.FirstError = f.in.Planned, m.heads, m.first
	if f.links, err = chain(ctx, f.dir, m.heads); err != nil {
		return err
	}
	f.in.Planned = f.in.Redrive.Planned
	if f.books, err = f.checkBooks(ctx); err != nil {
		return err
	}
	return f.publishNew(ctx)
}

// openOutput prepares the merged output, which gets up to the given number of bytes of new results.
func (f *finish) openOutput(ctx context.Context, m *merger, more int64) error {
	if f.in.Spec.Output == "" || store.IsPrefix(f.in.Spec.Output) {
		m.out = &mergedParts{dir: f.dir, run: f.in.Ref.Run}
		return nil
	}
	file, err := f.openMerged(ctx, f.in.Redrive.Output.Bytes+more)
	if err != nil {
		return err
	}
	f.merged, m.out = file.to, file
	return nil
}

// merge brings about the merged state, of which nothing is visible yet.
func (f *finish) merge(ctx context.Context, m *merger, before []link) error {
	runs := map[string]bool{}
	for _, run := range f.in.Redrive.Runs {
		runs[run] = true
	}
	for _, l := range slices.Concat(before, f.links) {
		runs[l.Run] = true
	}
	if len(before) > 0 {
		if err := f.copyTable(ctx, m, before[0].Sources); err != nil {
			return err
		}
	}
	err := entries(ctx, f.dir, before, func(e ownedEntry) error {
		runs[e.run] = true
		return m.entry(ctx, e)
	})
	if err != nil {
		return err
	}
	if err := m.outcomes.end(); err != nil {
		return err
	}
	if err := m.out.end(); err != nil {
		return err
	}
	delete(runs, f.in.Ref.Run)
	f.Before = slices.Sorted(maps.Keys(runs))
	return m.flush(ctx)
}

// copyTable gives the merged state a source table of its own.
func (f *finish) copyTable(ctx context.Context, m *merger, key string) error {
	table, err := f.acts.table(ctx, f.dir, key)
	if err != nil {
		return err
	}
	m.ref.Sources = m.ref.sourcesKey(newToken())
	return writeTable(ctx, f.dir, m.ref.Sources, table)
}

// noPieces is nothing to join.
var noPieces iter.Seq2[store.Piece, error] = func(func(store.Piece, error) bool) {}

// sweepMerged removes from the store what the merged state does not need: of the redrive, and of all
// runs before it.
func (f *finish) sweepMerged(ctx context.Context) error {
	joined := f.in.Spec.Output != "" && !store.IsPrefix(f.in.Spec.Output)
	kept := map[string]bool{f.in.Ref.doneKey(): true}
	for _, l := range f.links {
		kept[l.key], kept[l.Sources] = true, true
	}
	err := entries(ctx, f.dir, f.links, func(e ownedEntry) error {
		if e.ErrBytes > 0 {
			kept[errorsKey(e.run, e.Entry)] = true
		}
		if !joined && e.Bytes > 0 {
			kept[resultsKey(e.run, e.Entry)] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	// A newer run may need what is there.
	if err := f.whileCurrent(ctx, func(context.Context) error { return nil }); err != nil {
		return err
	}
	for _, run := range append(slices.Clone(f.Before), f.in.Ref.Run) {
		_, err := f.dir.Sweep(ctx, path.Clean(run)+"/", func(key string) bool { return kept[key] })
		if err != nil {
			return storeError(job.ErrorOutput, err)
		}
	}
	return nil
}
