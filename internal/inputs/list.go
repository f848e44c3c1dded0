package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"
)

// headReaders is how many inputs are opened at once to look at their beginnings.
const headReaders = 16

// List expands the inputs of a job's spec and looks at the beginning of each, but not of those in
// bundles, which are read as a whole whenever they are read, nor of the standard input, which is read from
// its spool.
func (n *Inputs) List(ctx context.Context, dir store.Dir, in PlanInput) (*Table, error) {
	var table Table
	own := ownFilesOf(in.Spec)
	var pending []store.Input // of one bundle
	var shape records.Shape   // of it
	flush := func() {
		if len(pending) > 0 {
			table.bundle(pending, shape)
			pending = pending[:0]
		}
	}
	add := func(input store.Input) error {
		s := plainSource(input, records.Shape{})
		if err := s.choose(in.Spec); err != nil {
			return ledger.Permanent(job.ErrorInvalid, err)
		}
		isSmall := s.URL != stdinName && s.Compression == records.None && s.Size <= smallInput
		if !isSmall || !s.Shape.Alike(&shape) || len(pending) == maxBundle {
			flush()
		}
		if isSmall {
			pending, shape = append(pending, input), s.Shape
		} else {
			table.Sources = append(table.Sources, s)
		}
		return nil
	}
	for _, arg := range in.Spec.Input {
		if arg == stdinName {
			if slices.ContainsFunc(table.Sources, func(s Source) bool { return s.URL == stdinName }) {
				return nil, ledger.Permanent(job.ErrorInput, errStdinTwice)
			}
			if err := add(store.Input{URL: stdinName}); err != nil {
				return nil, err
			}
			continue
		}
		if err := own.named(arg); err != nil {
			return nil, err
		}
		found := false
		for input, err := range n.access.Expand(ctx, []string{arg}) {
			if err != nil {
				return nil, ledger.StoreError(job.ErrorInput, err)
			}
			names := own.names(input.URL)
			if own.has(input.URL, names) {
				table.LeftOut++
				continue
			}
			if err := own.check(input.URL, names); err != nil {
				return nil, err
			}
			found = true
			table.narrow(input.Perm)
			if err := add(input); err != nil {
				return nil, err
			}
		}
		if !found {
			return nil, ledger.StoreError(job.ErrorInput, &store.NoMatchError{Arg: arg})
		}
	}
	flush()
	if err := table.checkDelimiter(in.Spec); err != nil {
		return nil, err
	}
	return &table, n.lookAt(ctx, dir, in, &table)
}

// lookAt finds out how the sources begin, and gives those that need one their place for a copy.
func (n *Inputs) lookAt(ctx context.Context, dir store.Dir, in PlanInput, table *Table) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(headReaders)
	for i := range table.Sources {
		s := &table.Sources[i]
		switch {
		case s.URL == stdinName:
			s.Spool, s.MaxInput = ledger.SpoolKey(in.Ref.Sources, i), in.Spec.MaxInput
			if err := n.giveStdin(ctx, dir, in.Ref, s); err != nil {
				_ = group.Wait()
				return err
			}
		case s.Bundle != nil:
		default:
			if s.Compression != records.None {
				s.Spool, s.MaxInput = ledger.SpoolKey(in.Ref.Sources, i), in.Spec.MaxInput
			}
			group.Go(func() error {
				return trap.Call("reading the head of an input", func() error { return n.readHead(ctx, s) })
			})
		}
	}
	return group.Wait()
}

// choose sets compression, and the shape as far as spec and name show it.
func (s *Source) choose(spec job.Spec) (err error) {
	name, byName := "", spec.Format == "" || spec.Format == "auto"
	if s.URL != stdinName {
		if _, name, err = store.Split(s.URL); err != nil {
			return err
		}
		s.Compression = records.CompressionOf(name)
	}
	switch {
	case !byName:
		s.Shape, err = records.ParseFormat(spec.Format)
	case s.URL == stdinName:
		s.Shape = records.Shape{Format: records.Text}
	default:
		s.Shape, err = records.FormatOf(name)
	}
	if s.Shape.Format == records.CSV && spec.Delimiter != "" {
		s.Shape.Delimiter = spec.Delimiter
	}
	s.Shape.MaxItem = int(spec.MaxItem)
	return err
}

// checkDelimiter refuses a delimiter that no input has a use for.
func (t *Table) checkDelimiter(spec job.Spec) error {
	isCSV := func(s Source) bool { return s.Shape.Format == records.CSV }
	if spec.Delimiter == "" || len(t.Sources) == 0 || slices.ContainsFunc(t.Sources, isCSV) {
		return nil
	}
	return ledger.Permanent(job.ErrorInvalid, fmt.Errorf(
		"delimiter %q: no input is csv, and %s is %s: choose the format with --format csv, or leave the delimiter out",
		spec.Delimiter, t.Sources[0].URL, t.Sources[0].Shape.Format))
}

func (n *Inputs) readHead(ctx context.Context, s *Source) error {
	r, err := n.openWhole(ctx, s)
	if err != nil {
		return err
	}
	defer r.Close()
	return s.takeHead(r)
}

// takeHead reads what the beginning of the source shows of its shape, and where the first item may begin.
func (s *Source) takeHead(r io.Reader) error {
	shape, start, err := records.ReadHead(r, s.Shape)
	if judged, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return judged
	}
	if err != nil {
		return ledger.Permanent(job.ErrorInput, fmt.Errorf("reading the beginning of %s: %w", s.URL, err))
	}
	s.Shape, s.Start = shape, start
	return nil
}
