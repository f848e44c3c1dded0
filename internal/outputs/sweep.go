package outputs

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// Sweep removes what the run, and those that it continues or takes the place of, have left behind: parts of executions that were not
// accepted, copies of inputs, and parts that are in the output by now. Manifests and error parts of its chain stay, for
// redrives of the job. Once a newer run has claimed the store, the earlier runs are left to it.
func (p *Publication) Sweep(ctx context.Context) error {
	runs := map[string]bool{}
	err := ledger.Entries(ctx, p.Dir, p.Links, func(e ledger.OwnedEntry) error {
		runs[e.Owner] = true
		return nil
	})
	if err != nil {
		return ledger.StoreError(job.ErrorOutput, err)
	}
	for _, l := range p.Links {
		runs[l.Run] = true
	}
	delete(runs, p.Ref.Run)
	replaced := slices.DeleteFunc(slices.Clone(p.Earlier), func(run string) bool { return run == p.Ref.Run || runs[run] })
	if err := p.SweepRun(ctx, p.Ref.Run, p.Ref.DoneKey(), p.Ref.Sources); err != nil || len(runs)+len(replaced) == 0 {
		return err
	}
	err = p.Ref.WhileCurrent(ctx, p.Dir, func(context.Context) error { return nil })
	if fenced := new(store.FencedError); errors.As(err, &fenced) {
		return nil
	}
	if err != nil {
		return err
	}
	earlier := slices.Sorted(maps.Keys(runs))
	if !slices.ContainsFunc(p.Links, func(l ledger.Link) bool { return l.Run == p.Ref.Run }) {
		// A later run finds by the chain what is published, and this run has nothing in it.
		published := ledger.Done{Output: p.Output, Errors: p.Errors, Dropped: p.Dropped, Books: p.Books, Delivered: true, Kept: p.kept, Merged: p.Merged}
		for _, run := range earlier {
			if err := published.Write(ctx, p.Dir, ledger.Ref{Run: run}); err != nil {
				return err
			}
		}
	}
	for _, run := range earlier {
		done := ledger.Ref{Run: run}.DoneKey() // a repetition of Finish looks at it
		if err := p.SweepRun(ctx, run, done); err != nil {
			return err
		}
	}
	for _, run := range replaced { // nothing is known of them by the chain, and so nobody looks at what they have published
		if err := p.SweepRun(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

// SweepRun removes what a run has in the store, but for what the manifests name, and the other keys that are given.
func (p *Publication) SweepRun(ctx context.Context, run string, others ...string) error {
	kept := map[string]bool{}
	for _, key := range others {
		kept[key] = true
	}
	for _, l := range p.Links {
		kept[l.Key], kept[l.Sources] = true, true
	}
	parts := ledger.NewAccepted(ctx, p.Dir, p.Links, run, p.KeepsParts())
	_, err := p.Dir.Sweep(ctx, path.Clean(run)+"/", func(key string) bool { return kept[key] || parts.Has(key) })
	if partsErr := parts.Close(); err == nil {
		err = partsErr
	}
	return ledger.StoreError(job.ErrorOutput, err)
}
