package job

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/location"
)

// anyPlaceholder finds what was meant as a placeholder in the name of a file: all in braces that has no comma.
var anyPlaceholder = regexp.MustCompile(`\{[^{},]*\}`)

// Ticked returns the spec of the run that a schedule starts: with that name, and with the placeholders
// of its locations replaced if the name is one that schedules give (NAME-2026-11-21T03:00:00Z).
func (s Spec) Ticked(name string) Spec {
	s.newFilesDefaults() // by the places that all ticks have
	s.Name = name
	_, at, ok := limits.ScheduledName(name)
	if !ok {
		return s
	}
	if s.Files != nil {
		files := *s.Files
		files.Input = slices.Clone(files.Input)
		for i, input := range files.Input {
			files.Input[i] = fillTick(input, at)
		}
		s.Files = &files
	}
	for _, o := range []*string{&s.Output, &s.Errors, &s.Dropped, &s.Report, &s.Store} {
		*o = fillTick(*o, at)
	}
	return s
}

// output is a location that a run writes.
type output struct{ field, location string }

func (s Spec) outputs() [5]output {
	return [5]output{{"Output", s.Output}, {"Errors", s.Errors}, {"Dropped", s.Dropped}, {"Report", s.Report}, {"Store", s.Store}}
}

// checkPlaceholders refuses unknown and malformed placeholders, which would become a part of a file's name. In inputs
// only those for a time are checked: other braces may belong to a glob.
func (s Spec) checkPlaceholders() error {
	var errs []error
	for i, input := range s.Inputs() {
		if err := checkTickTimes(input); err != nil {
			errs = append(errs, fieldError("Files.Input", "%d of %d, %s: %v", i+1, len(s.Inputs()), input, err))
		}
	}
	for _, o := range s.outputs() {
		if err := s.checkOutputPlaceholders(o); err != nil {
			errs = append(errs, fieldError(o.field, "%s: %v", o.location, err))
		}
	}
	return errors.Join(errs...)
}

func (s Spec) checkOutputPlaceholders(o output) error {
	for _, p := range anyPlaceholder.FindAllString(o.location, -1) {
		ofSplit := p == location.Placeholder && s.Split != "" && o.field == "Output"
		if !ours.MatchString(p) && !ofSplit {
			return fmt.Errorf("unknown placeholder %s: use %s (such as 20261121T030000Z) or %s (2026-11-21), the time of the tick in UTC, with an offset or a layout if need be, such as {date-1} or {date:2006/01}",
				p, placeholderTime, placeholderDate)
		}
	}
	if p := withComma.FindString(o.location); p != "" {
		return fmt.Errorf("invalid placeholder %s: it may have no comma", p)
	}
	return checkTickTimes(o.location)
}

// checkApart refuses outputs that two runs at the same time would both write.
func (s Spec) checkApart() error {
	for _, o := range s.outputs() {
		if o.location != "" && !tellsTicksApart(o.location) {
			return fieldError("Overlap", "%s: two runs at the same time would both write %s %s: put %s into it, such as out-%s.jsonl, or choose another overlap",
				OverlapAllow, strings.ToLower(o.field), o.location, placeholderTime, placeholderTime)
		}
	}
	return nil
}

// SplitField returns the name of the field by which results are split; empty if they are not.
func (s Spec) SplitField() string { return strings.TrimPrefix(s.Split, ".") }

// splitDefaults sets the locations that an output has besides its files. No value gives a file with such a name.
func (s *Spec) splitDefaults() {
	if location.IsPrefix(s.Output) {
		s.Output = location.Append(s.Output, location.Placeholder+".jsonl")
	}
	if location.IsPattern(s.Output) {
		setDefault(&s.Store, location.Append(location.Fill(s.Output, "_split"), ".stint"))
		setDefault(&s.Errors, location.Fill(s.Output, "_errors"))
	}
}

// checkSplit checks how results are split, and that no file of theirs would replace another one.
func (s Spec) checkSplit() error {
	switch {
	case s.Split == "":
		return nil
	case s.SplitField() == "":
		return fieldError("Split", "%q: name a field of the results, such as kind or .kind", s.Split)
	case s.Output == "":
		return fieldError("Split", "%s: results are split into files: name an output with {} where the value goes, such as out/{}.jsonl", s.Split)
	case !location.IsPattern(s.Output):
		return fieldError("Output", "%s: results that are split by %s need one {} in the file's name, where the value goes, such as out/{}.jsonl, or end it with '/'", s.Output, s.Split)
	case location.Table(s.Output) != "":
		return fieldError("Output", "%s: results that are split stay JSON lines: name the files .jsonl, or leave Spec.Split out for one table", s.Output)
	case len(location.PatternName(s.Output)) > location.MaxPatternName:
		return fieldError("Output", "%s: the file's name is too long for one that gets values: use at most %d bytes", s.Output, location.MaxPatternName)
	}
	var errs []error
	pattern := withoutQuery(s.Output)
	for i, input := range s.Inputs() {
		if location.Covers(pattern, withoutQuery(input)) {
			errs = append(errs, fieldError("Files.Input", "%d of %d, %s, could also be a file of the output %s, which would replace it: name another output", i+1, len(s.Inputs()), input, s.Output))
		}
	}
	for _, o := range s.outputs() {
		if o.location != "" && o.field != "Output" && location.Covers(pattern, withoutQuery(o.location)) {
			errs = append(errs, fieldError(o.field, "%s could also be a file of the output %s: name another place, or put '_' where the value goes", o.location, s.Output))
		}
	}
	return errors.Join(errs...)
}

func withoutQuery(where string) string {
	where, _ = location.SplitQuery(where)
	return strings.TrimRight(sameLocation(where), "/")
}

// checkPlainResults refuses what only results of files have.
func (s Spec) checkPlainResults() error {
	var errs []error
	for _, f := range []struct {
		field string
		set   bool
	}{{"Flatten", s.Flatten}, {"Split", s.Split != ""}, {"Dropped", s.Dropped != ""}, {"Reuse", s.Reuse != nil}, {"Unique", s.Unique}} {
		if f.set {
			errs = append(errs, fieldError(f.field, "is for jobs of files only: leave it out"))
		}
	}
	return errors.Join(errs...)
}
