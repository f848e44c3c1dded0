package job

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/base/text"
)

// newFilesDefaults sets the place of the list of completed files: one that all runs of the name find, also those of a
// schedule, whose outputs have other names.
func (s *Spec) newFilesDefaults() {
	place := cmp.Or(s.Output, s.Store)
	if s.Files == nil || !s.Files.NewFiles || s.Files.NewFilesList != "" || place == "" || s.Name == "" {
		return
	}
	name := s.Name
	if schedule, _, ok := limits.ScheduledName(name); ok {
		name = schedule
	}
	files := *s.Files
	rest, query := location.SplitQuery(place)
	files.NewFilesList = commonDir(rest) + "." + name + ".completed-files" + query
	s.Files = &files
}

// commonDir returns the directory or prefix in which the outputs of all runs lie, with a separator at its end.
func commonDir(output string) string {
	if at := strings.IndexByte(output, '{'); at >= 0 {
		return upToSeparator(output[:at])
	}
	dir := upToSeparator(output)
	above := upToSeparator(strings.TrimRightFunc(output, isSeparator))
	if dir == output && above != "" && !strings.HasSuffix(above, "//") { // in which the parts are, unless it is all of a bucket
		return above
	}
	return dir
}

func upToSeparator(where string) string { return where[:strings.LastIndexFunc(where, isSeparator)+1] }

func isSeparator(r rune) bool { return r == '/' || r == filepath.Separator }

// checkNewFiles checks what says that only new files are run.
func (s Spec) checkNewFiles() []error {
	f := s.Files
	switch {
	case !f.NewFiles && f.NewFilesList != "":
		return []error{fieldError("Files.NewFilesList", "%s: it is for Files.NewFiles: set that, or leave it out", f.NewFilesList)}
	case !f.NewFiles:
		return nil
	case slices.Contains(f.Input, StandardInput):
		return []error{fieldError("Files.NewFiles", "is for files, and the standard input is none: name files")}
	case f.NewFilesList == "":
		return []error{fieldError("Files.NewFiles", "needs a place for the list of completed files: name an output, or set Files.NewFilesList")}
	}
	return s.checkNewFilesList(f.NewFilesList)
}

func (s Spec) checkNewFilesList(list string) (errs []error) {
	refuse := func(format string, args ...any) {
		errs = append(errs, fieldError("Files.NewFilesList", format, args...))
	}
	if n := text.JSONSize(list); n > maxLocation {
		refuse("%q takes %s bytes as JSON: at most %s are allowed", text.Cut(list, 50), text.Thousands(int64(n)), text.Thousands(maxLocation))
	}
	if location.IsPrefix(list) {
		refuse("%s: name a file", list)
	}
	if p := anyPlaceholder.FindString(list); p != "" {
		refuse("%s: every run has to find it: leave %s out", list, p)
	}
	for _, o := range s.outputs() {
		if o.location != "" && sameLocation(o.location) == sameLocation(list) {
			refuse("%s is also the spec's %s: name another place", list, o.field)
		}
	}
	for _, input := range s.Inputs() {
		if sameLocation(input) == sameLocation(list) {
			refuse("%s is also an input: name another place", list)
		}
	}
	return errs
}

// checkScheduledOutput refuses an output that each run would replace by the results of its new files.
func (s Spec) checkScheduledOutput() error {
	place, field := s.Output, "Output"
	if place == "" {
		place, field = s.Store, "Store"
	}
	if s.NewFilesList() == "" || place == "" || ours.MatchString(place) {
		return nil
	}
	return fieldError(field, "%s: each run has the results of its new files only, and would replace those of the run before: put %s or %s into it", place, placeholderDate, placeholderTime)
}
