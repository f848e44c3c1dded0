package inputs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/base/formats"
	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"golang.org/x/sync/errgroup"
)

// headReaders is how many inputs are opened at once to look at their beginnings.
const headReaders = 16

// List expands the inputs of a job's spec and looks at the beginning of each, but not of those in
// bundles, which are read as a whole whenever they are read, nor of the standard input, which is read from
// its spool.
func (n *Inputs) List(ctx context.Context, dir store.Dir, in wire.PlanInput) (*Table, error) {
	l := &listing{
		inputs: n, ctx: ctx, spec: in.Spec, own: ownFilesOf(in.Spec), table: &Table{SourceTable: wire.SourceTable{Machine: machine}},
		written: written{ctx: ctx, access: n.access, places: map[string]*outputDir{}},
	}
	var err error
	if l.newFiles, err = n.newFilesOf(ctx, dir, in, l.table); err != nil {
		return nil, err
	}
	defer l.newFiles.abort()
	if in.Spec.Files.Names {
		l.names = newNameList(ctx, dir, in)
		defer l.names.abort()
	}
	for _, arg := range in.Spec.Inputs() {
		if err := l.take(arg); err != nil {
			return nil, err
		}
	}
	if err := l.newFiles.end(l.table); err != nil {
		return nil, err
	}
	if l.names != nil {
		return l.table, l.names.end(l.table)
	}
	l.flush()
	if err := l.table.checkDelimited(in.Spec); err != nil {
		return nil, err
	}
	return l.table, n.lookAt(ctx, dir, in, l.table)
}

// listing makes the table of a job's inputs.
type listing struct {
	inputs  *Inputs
	ctx     context.Context
	spec    job.Spec
	own     *ownFiles
	written written
	table   *Table
	names   *nameList // what becomes of inputs whose names are the items; nil: of those that are read

	newFiles *newFiles

	pending []store.Input // of one bundle
	shape   wire.Shape    // of it
	digests int           // of inputs in bundles so far
}

// take takes the inputs of an argument.
func (l *listing) take(arg string) error {
	if arg == stdinName {
		if slices.ContainsFunc(l.table.Sources, func(s wire.Source) bool { return s.URL == stdinName }) {
			return ledger.Permanent(job.ErrorInput, errStdinTwice)
		}
		return l.add(store.Input{URL: stdinName}, nil)
	}
	if err := l.own.named(arg); err != nil {
		return err
	}
	found, leftOut := false, l.table.LeftOut
	for input, err := range l.inputs.access.Expand(l.ctx, []string{arg}) {
		if errors.As(err, new(*store.NoMatchError)) && l.newFiles.mayBeNone() {
			l.table.notes = append(l.table.notes, fmt.Sprintf("input %s has no files at present", arg))
			return nil
		}
		if err != nil {
			return ledger.StoreError(job.ErrorInput, err)
		}
		took, err := l.takeFound(arg, input)
		if err != nil {
			return err
		}
		found = found || took
	}
	switch {
	case found:
		return nil
	case l.table.LeftOut > leftOut:
		return ledger.Permanent(job.ErrorInput, fmt.Errorf(
			"input %s: all that it finds was written by stint for itself, such as error records: name another input, or a single file, which is read whatever it is", arg))
	}
	return ledger.StoreError(job.ErrorInput, &store.NoMatchError{Arg: arg})
}

// takeFound takes an input that an argument has led to. It reports whether that is one, or stands for some.
func (l *listing) takeFound(arg string, input store.Input) (bool, error) {
	names := l.own.names(input.URL)
	if l.own.has(input.URL, names) {
		l.table.LeftOut++
		return false, nil
	}
	if err := l.own.check(input.URL, names); err != nil {
		return false, err
	}
	if isNamed(arg, input) {
		return true, l.add(input, nil)
	}
	dir, err := l.written.dirOf(arg, input.URL)
	if err != nil {
		return false, err
	}
	if dir != nil {
		return l.takeWritten(arg, dir, input)
	}
	other, err := l.written.isOther(input)
	if err != nil {
		return false, err
	}
	if other {
		l.table.LeftOut++
		return false, nil
	}
	err = l.add(input, nil)
	if unknown, ok := errors.AsType[*records.UnknownFormatError](err); ok {
		err = ledger.Permanent(job.ErrorInvalid, fmt.Errorf(
			"%w; or name the files that are meant by a pattern, such as %s", unknown, patternFor(arg)))
	}
	return true, err
}

// isNamed reports whether an argument is the input's own name.
func isNamed(arg string, input store.Input) bool {
	if arg == input.URL {
		return true
	}
	_, name, err := store.SplitName(arg)
	return err == nil && name == input.Key && !strings.ContainsAny(arg, "*?[{")
}

// patternFor returns an example of a pattern for what is found below an argument.
func patternFor(arg string) string {
	if dir, _, err := store.SplitName(arg); err == nil && strings.ContainsAny(arg, "*?[{") {
		arg = dir
	}
	return "'" + location.Append(strings.TrimRight(arg, "/"), "/*.jsonl") + "'"
}

// takeWritten takes an input that lies where a job writes: all parts of an output in the place of the first file that
// is found there, or of a pattern those parts that match.
func (l *listing) takeWritten(arg string, dir *outputDir, input store.Input) (bool, error) {
	shape, err := l.written.shapeOf(dir)
	if err != nil {
		return false, err
	}
	switch {
	case strings.ContainsAny(arg, "*?[{"):
		if !dir.isPart[input.URL] {
			l.table.LeftOut++
			return false, nil
		}
		return true, l.add(input, &shape)
	case !dir.listed:
		l.table.LeftOut++
		return false, nil
	case dir.given:
		return true, nil
	}
	dir.given = true
	for _, url := range dir.parts {
		info, err := l.inputs.access.StatInput(l.ctx, url)
		if err != nil {
			return false, ledger.StoreError(job.ErrorInput, err)
		}
		if err := l.add(store.Input{URL: url, Info: info}, &shape); err != nil {
			return false, err
		}
	}
	return true, nil
}

// add adds an input. given is its shape if that does not show by its name, and is not chosen by the spec.
func (l *listing) add(input store.Input, given *wire.Shape) error {
	if old, err := l.newFiles.take(input); old || err != nil {
		return err
	}
	l.table.narrow(input.Perm)
	if l.names != nil {
		return l.names.add(input.URL)
	}
	s := plainSource(input, wire.Shape{})
	if err := chooseShape(&s, l.spec, given); err != nil {
		if unreadable := l.inputs.unreadable(l.ctx, &s); unreadable != nil {
			return unreadable
		}
		return ledger.Permanent(job.ErrorInvalid, err)
	}
	isSmall := s.URL != stdinName && s.Compression == records.None && s.Size <= smallInput
	if isSmall && s.Size == 0 && s.ETag == "" {
		var err error
		if s.Unsized, err = l.inputs.hasBytes(l.ctx, s.URL); err != nil {
			return err
		}
		isSmall = !s.Unsized
	}
	if !isSmall || !records.Alike(&s.Shape, &l.shape) || len(l.pending) == maxBundle {
		l.flush()
	}
	if !isSmall {
		l.table.Sources = append(l.table.Sources, s)
		return nil
	}
	if l.digests < maxDigests {
		l.digests++
		var err error
		if input.Digest, err = l.inputs.digest(l.ctx, input); err != nil {
			return err
		}
	}
	l.pending, l.shape = append(l.pending, input), s.Shape
	return nil
}

// unreadable returns the error of an input whose name says that it is compressed if it cannot be read at all, as when
// it is not; nil: it can, or that is not known.
func (n *Inputs) unreadable(ctx context.Context, s *wire.Source) error {
	if s.Compression == records.None {
		return nil
	}
	r, err := n.openWhole(ctx, s)
	if err == nil {
		_, err = io.ReadFull(r, make([]byte, 1))
		_ = r.Close() // only read from
	}
	if judged, ok := errors.AsType[*ledger.Judged](err); ok && judged.NonRetryable() {
		return judged
	}
	return nil
}

// flush makes a source of the inputs that are to be one.
func (l *listing) flush() {
	if len(l.pending) > 0 {
		l.table.bundle(l.pending, l.shape)
		l.pending = l.pending[:0]
	}
}

// hasBytes reports whether an input whose size is said to be 0 has bytes after all.
func (n *Inputs) hasBytes(ctx context.Context, url string) (bool, error) {
	r, err := n.access.OpenInput(ctx, url, 0, 1)
	if err != nil {
		return false, ledger.StoreError(job.ErrorInput, err)
	}
	defer r.Close()
	got, err := io.ReadFull(r, make([]byte, 1))
	if err != nil && err != io.EOF {
		return false, ledger.StoreError(job.ErrorInput, store.Doing("reading "+url, err))
	}
	return got > 0, nil
}

// lookAt finds out how the sources begin, and gives those that need one their place for a copy.
func (n *Inputs) lookAt(ctx context.Context, dir store.Dir, in wire.PlanInput, table *Table) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(headReaders)
	for i := range table.Sources {
		s := &table.Sources[i]
		switch {
		case s.URL == stdinName:
			s.Spool, s.MaxInput = ledger.SpoolKey(in.Ref.Sources, i), in.Spec.Files.MaxInput
			if err := n.giveStdin(ctx, dir, in.Ref, s); err != nil {
				_ = group.Wait()
				return err
			}
		case s.Bundle != nil:
		default:
			if s.Compression != records.None || s.Unsized {
				s.Spool, s.MaxInput = ledger.SpoolKey(in.Ref.Sources, i), in.Spec.Files.MaxInput
			}
			group.Go(func() error {
				return trap.Call("reading the head of an input", func() (err error) {
					if s.Digest == "" && !fixed(s) {
						if s.Digest, err = n.digest(ctx, inputOf(s)); err != nil {
							return err
						}
					}
					return n.readHead(ctx, s)
				})
			})
		}
	}
	return group.Wait()
}

// choose sets compression, and the shape as far as spec and name show it, or given has it.
func chooseShape(s *wire.Source, spec job.Spec, given *wire.Shape) (err error) {
	name, byName := "", spec.Format == "" || spec.Format == formats.Auto
	if s.URL != stdinName {
		if _, name, err = store.SplitName(s.URL); err != nil {
			return err
		}
		s.Compression = records.CompressionOf(name)
	}
	switch {
	case !byName:
		s.Shape, err = records.ParseFormat(spec.Format)
	case s.URL == stdinName:
		s.Shape = wire.Shape{Format: records.Text}
	case given != nil:
		s.Shape = *given
	default:
		s.Shape, err = records.FormatOf(name)
		if unknown, ok := errors.AsType[*records.UnknownFormatError](err); ok && spec.Files.OtherFormat != "" && !unknown.Packed() {
			s.Shape, err = records.ParseFormat(spec.Files.OtherFormat)
		}
	}
	if err != nil {
		return err
	}
	if records.Delimited(&s.Shape) {
		s.Shape.Quote = cmp.Or(spec.Files.Quote, s.Shape.Quote)
		s.Shape.Delimiter = cmp.Or(spec.Files.Delimiter, s.Shape.Delimiter)
	}
	s.Shape.MaxItem = int(spec.MaxItem)
	return nil
}

// checkDelimited refuses a delimiter or a quote that no input has a use for.
func (t *Table) checkDelimited(spec job.Spec) error {
	delimited := func(s wire.Source) bool { return records.Delimited(&s.Shape) }
	what, value := "delimiter", spec.Files.Delimiter
	if value == "" {
		what, value = "quote", spec.Files.Quote
	}
	if value == "" || len(t.Sources) == 0 || slices.ContainsFunc(t.Sources, delimited) {
		return nil
	}
	return ledger.Permanent(job.ErrorInvalid, fmt.Errorf(
		"%s %q: no input is csv, and %s is %s: choose the format with --format csv, or leave the %s out",
		what, value, t.Sources[0].URL, t.Sources[0].Shape.Format, what))
}

func (n *Inputs) readHead(ctx context.Context, s *wire.Source) error {
	r, err := n.openWhole(ctx, s)
	if err != nil {
		return err
	}
	defer r.Close()
	return takeHead(s, r)
}

// takeHead reads what the beginning of the source shows of its shape, and where the first item may begin.
func takeHead(s *wire.Source, r io.Reader) error {
	head, err := records.Look(r, s.Shape)
	if judged, ok := errors.AsType[*ledger.Judged](err); ok {
		return judged
	}
	if err != nil {
		name := s.URL
		if name == stdinName {
			name = "the standard input"
		}
		return ledger.Permanent(job.ErrorInput, fmt.Errorf("reading the beginning of %s: %w", name, err))
	}
	s.Shape, s.Start, s.Hint = head.Shape, head.Start, head.Hint
	return nil
}
