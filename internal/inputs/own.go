package inputs

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/stint-run/stint/internal/location"
	"github.com/stint-run/stint/job"
)

// ownFiles are what a job writes itself: found among its inputs, they are of an earlier run and left out.
type ownFiles struct {
	files    map[string]bool
	prefixes []string
	split    string // pattern of files that results are split into; empty: they are not
}

func ownFilesOf(s job.Spec) ownFiles {
	own := ownFiles{files: map[string]bool{}}
	if s.Split != "" {
		own.split = plainName(s.Output)
	}
	for _, file := range []string{s.Output, s.Errors, s.Dropped, s.Report} {
		if file != "" && !location.IsPrefix(file) {
			own.files[plainName(file)] = true
		}
	}
	for _, place := range []string{s.Output, s.Store} {
		if place != "" && (place == s.Store || location.IsPrefix(place)) {
			own.prefixes = append(own.prefixes, strings.TrimRight(plainName(place), "/")+"/")
		}
	}
	return own
}

// has reports whether the job writes an object that was found for an argument. What the argument names
// itself is wanted.
func (o ownFiles) has(url, arg string) bool {
	name := plainName(url)
	if name == plainName(arg) {
		return false
	}
	if o.files[name] {
		return true
	}
	for _, prefix := range o.prefixes {
		if strings.HasPrefix(name, prefix) && !strings.HasPrefix(plainName(arg), prefix) {
			return true
		}
	}
	return false
}

// check returns an error if a file that results are split into could replace an input: which of them are of an earlier run shows
// only by their names, and those are anybody's.
func (o ownFiles) check(url string) error {
	if o.split == "" || !location.Covers(o.split, plainName(url)) {
		return nil
	}
	return fmt.Errorf("input %s could also be a file of the output %s, which would replace it: name another output, or other inputs", url, o.split)
}

// plainName is a location without its query, clean if it is a path.
func plainName(where string) string {
	where = strings.TrimPrefix(where, "file://")
	if !location.IsURL(where) {
		return filepath.ToSlash(filepath.Clean(where))
	}
	where, _ = location.SplitQuery(where)
	return where
}
