package outputs

import (
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Sweep removes what the run, and those that it continues or takes the place of, have left behind: parts of executions
// that were not accepted, copies of inputs, and parts that are in the output by now. Manifests and error parts of its
// chain stay, for redrives of the job. Once a newer run has claimed the store, the earlier runs are left to it.
func (p *Publication) Sweep(ctx context.Context) error {
	runs := map[string]bool{}
	err := ledger.Entries(ctx, p.Dir, p.Links, func(e ledger.OwnedEntry) error {
		runs[e.Owner] = true
		return nil
	})
	if err != nil {
		return ledger.StoreError(job.ErrorOutput, err)
	}
	recorded, err := p.recorded(ctx)
	if err != nil {
		return err
	}
	for _, run := range recorded {
		runs[run] = true
	}
	delete(runs, p.Ref.Run)
	replaced := slices.DeleteFunc(slices.Clone(p.Earlier), func(run string) bool { return run == p.Ref.Run || runs[run] })
	if err := p.SweepRun(ctx, p.Ref.Run, p.Ref.DoneKey(), p.Ref.Sources); err != nil || len(runs)+len(replaced) == 0 {
		return err
	}
	err = ledger.WhileCurrent(ctx, p.Ref, p.Dir, func(context.Context) error { return nil })
	if fenced := new(store.FencedError); errors.As(err, &fenced) {
		return nil
	}
	if err != nil {
		return err
	}
	earlier := slices.Sorted(maps.Keys(runs))
	if !slices.Contains(recorded, p.Ref.Run) {
		// A later run finds by the chain what is published, and this run has nothing in it.
		published := wire.Done{Output: p.Output, Errors: p.Errors, Dropped: p.Dropped, Books: p.Books, Delivered: true, Kept: p.kept, Filled: p.Filled, Merged: p.Merged}
		for _, run := range earlier {
			if err := ledger.WriteDone(ctx, &published, p.Dir, wire.Ref{Run: run}); err != nil {
				return err
			}
		}
	}
	for _, run := range earlier {
		done := wire.Ref{Run: run}.DoneKey() // a repetition of Finish looks at it
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
	below := path.Clean(run) + "/"
	kept := keySet{}
	for _, key := range others {
		kept.add(key)
	}
	err := p.eachLink(ctx, func(l ledger.Link) error {
		for _, key := range []string{l.Key, l.Sources} {
			if strings.HasPrefix(key, below) {
				kept.add(key)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	parts := ledger.NewAccepted(ctx, p.Dir, p.Links, run, p.KeepsParts())
	_, err = p.Dir.Sweep(ctx, below, func(key string) bool { return kept.has(key) || parts.Has(key) })
	if partsErr := parts.Close(); err == nil {
		err = partsErr
	}
	return ledger.StoreError(job.ErrorOutput, err)
}

// keySet is a set of keys that takes 16 bytes for each of them, as a feed has one for every ten seconds of its life. It
// may have a key that was not added, once in a very long time: that one is kept for nothing.
type keySet map[uint64]struct{}

var keySeed = maphash.MakeSeed()

func (s keySet) add(key string) { s[maphash.String(keySeed, key)] = struct{}{} }

func (s keySet) has(key string) bool {
	_, ok := s[maphash.String(keySeed, key)]
	return ok
}
