package outputs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/location"
	"github.com/stint-run/stint/job"
)

// splitListKey is the object that lists the files that results have been split into, whatever run has published them. Files of an
// earlier run that a later one does not have would otherwise stay among those of the later one.
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

// announce lists the files that are about to be published, with those that are there.
func (s *splitter) announce(ctx context.Context) error {
	before, err := s.known(ctx)
	if err != nil {
		return err
	}
	return s.note(ctx, append(s.names(), before...))
}

// removeOthers removes the listed files that the run does not have, and lists its own.
func (s *splitter) removeOthers(ctx context.Context) error {
	before, err := s.known(ctx)
	if err != nil {
		return err
	}
	own := s.names()
	for _, name := range before {
		if slices.Contains(own, name) || !location.Covers(s.name, name) {
			continue
		}
		if err := s.to.Delete(ctx, name); err != nil {
			return ledger.StoreError(job.ErrorOutput, err)
		}
	}
	return s.note(ctx, own)
}

// names are those of the files.
func (s *splitter) names() []string {
	var names []string
	for _, f := range s.files {
		names = append(names, f.name)
	}
	return names
}

func (s *splitter) note(ctx context.Context, names []string) error {
	slices.Sort(names)
	data, err := json.Marshal(splitList{s.p.Spec.Output, slices.Compact(names)})
	if err != nil {
		return fmt.Errorf("listing the files: %w", err)
	}
	return ledger.StoreError(job.ErrorOutput, s.p.Dir.Put(ctx, splitListKey, append(data, '\n')))
}
