package outputs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/job"
)

// splitListKey is the object that lists the files that results have been split into, whatever run has published them.
// Files of an earlier run that a later one does not have would otherwise stay among those of the later one.
const splitListKey = "SPLIT"

// splitList is the object's content.
type splitList struct {
	Output string   `json:"output"`
	Files  []string `json:"files"` // names
}

// known returns the files that have been published, or were about to be, in the place of this run's.
func (s *splitter) known(ctx context.Context) ([]string, error) {
	data, err := s.p.Dir.Get(ctx, splitListKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, ledger.StoreError(job.ErrorOutput, err)
	}
	var list splitList
	if err := json.Unmarshal(data, &list); err != nil || list.Output != s.p.Spec.Output {
		return nil, nil // it says nothing about this place
	}
	return list.Files, nil
}

// relist begins to replace the list. names returns the new one, of those that were listed before. It is begun before
// the look at CURRENT under which the Writer is committed: see [store.CreateUnchanged].
func (s *splitter) relist(ctx context.Context, names func(before []string) []string) (w store.Writer, before []string, err error) {
	if w, err = store.CreateUnchanged(ctx, s.p.Dir, splitListKey); err != nil {
		return nil, nil, ledger.StoreError(job.ErrorOutput, err)
	}
	if before, err = s.known(ctx); err == nil {
		_, err = w.Write(s.list(names(before)))
	}
	if err != nil {
		w.Abort()
		return nil, nil, ledger.StoreError(job.ErrorOutput, err)
	}
	return w, before, nil
}

// announce lists the files that are about to be published, with those that are there.
func (s *splitter) announce(ctx context.Context) error {
	w, _, err := s.relist(ctx, func(before []string) []string { return append(s.names(), before...) })
	if err != nil {
		return err
	}
	defer w.Abort() // does nothing after a commit
	return ledger.WhileCurrent(ctx, s.p.Ref, s.p.Dir, func(context.Context) error { return w.Commit() })
}

// prepareEnd prepares what publish does last: to remove the listed files that the run does not have, and to list its
// own.
func (s *splitter) prepareEnd(ctx context.Context) error {
	own := s.names()
	w, before, err := s.relist(ctx, func([]string) []string { return own })
	if err != nil {
		return err
	}
	s.last = w
	for _, name := range before {
		if slices.Contains(own, name) || !location.Covers(s.name, name) {
			continue
		}
		remove, err := store.Removal(ctx, s.to, name)
		if err != nil {
			return ledger.StoreError(job.ErrorOutput, err)
		}
		s.others = append(s.others, remove)
	}
	return nil
}

// end does what prepareEnd has prepared.
func (s *splitter) end(ctx context.Context) error {
	for _, remove := range s.others {
		if err := remove(ctx); err != nil {
			return ledger.StoreError(job.ErrorOutput, err)
		}
	}
	return ledger.StoreError(job.ErrorOutput, s.last.Commit())
}

// overtaken returns err. If it says that a newer run has taken over, it takes back what this one has put since.
func (s *splitter) overtaken(ctx context.Context, err error) error {
	if fenced := new(store.FencedError); s != nil && errors.As(err, &fenced) {
		_ = s.takeBack(ctx) // the next try would know nothing of it: it ends at the announcement
	}
	return err
}

// takeBack removes those files from a bucket that the run has put there after a newer run had published: a condition
// keeps what is there from being replaced, and says nothing of a file that the newer run does not have. What the newer
// run has is listed before it is put.
func (s *splitter) takeBack(ctx context.Context) error {
	removals := map[string]func(context.Context) error{}
	for _, f := range s.files {
		if !f.put {
			continue
		}
		remove, err := store.Removal(ctx, s.to, f.name)
		if err != nil {
			return err
		}
		removals[f.name] = remove
	}
	listed, err := s.known(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(removals)) {
		if slices.Contains(listed, name) {
			continue
		}
		if err := removals[name](ctx); err != nil {
			return err
		}
	}
	return nil
}

// names returns those of the files.
func (s *splitter) names() []string {
	var names []string
	for _, f := range s.files {
		names = append(names, f.name)
	}
	return names
}

// list returns the content of the list of these files.
func (s *splitter) list(names []string) []byte {
	slices.Sort(names)
	data, err := json.Marshal(splitList{s.p.Spec.Output, slices.Compact(names)})
	if err != nil {
		panic(fmt.Errorf("a list of files that cannot be written: %w", err)) // it has texts only
	}
	return append(data, '\n')
}
