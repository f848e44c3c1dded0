package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/job"
)

// ownFiles are what a job writes itself. Found among its inputs, they are of an earlier run and left out; an argument
// that names one is refused, because the job would replace its own input. What is compared are names (see
// [store.Names]), because one file can be reached in several ways. For that they are looked for on the worker: nobody
// else knows its links.
type ownFiles struct {
	files  map[string]string // where the spec has them, by name
	places map[string]string // the same of directories and prefixes
	split  string            // pattern of the names of files that results are split into; empty: they are not

	outside []string          // places that the argument in hand does not lie in
	written []writtenDir      // directories that exist
	dirs    map[string]string // names of directories, by path
}

// writtenDir is a directory that the job writes to.
type writtenDir struct {
	path string
	info fs.FileInfo
}

// partsList is outputs.PartsList: a place has one if the parts stay there.
const partsList = "manifest.jsonl"

func ownFilesOf(s job.Spec) *ownFiles {
	own := &ownFiles{files: map[string]string{}, places: map[string]string{}, dirs: map[string]string{}}
	var files, places []string
	for _, where := range []string{s.Output, s.Errors, s.Dropped, s.Report, s.NewFilesList()} {
		if where != "" && !location.IsPrefix(where) {
			files = append(files, where)
		}
	}
	if location.IsPrefix(s.Output) {
		places = append(places, s.Output)
	}
	if s.Store != "" {
		place := s.Store
		if !location.IsPrefix(place) {
			place = location.Append(place, "/")
		}
		places = append(places, place)
	}
	for _, place := range places {
		files = append(files, location.Append(place, partsList))
	}
	for _, file := range files {
		own.note(filepath.Dir(store.Target(file)))
	}
	for _, place := range places {
		own.note(store.Target(place))
	}
	for _, file := range files {
		own.files[own.name(store.Target(file))] = file
	}
	for _, place := range places {
		if name := store.Target(place); name != "" { // it can be understood
			own.places[own.place(name)] = place
		}
	}
	if s.Split != "" {
		own.split = own.name(store.Target(s.Output))
	}
	return own
}

// note remembers a directory that the job writes to.
func (o *ownFiles) note(path string) {
	if !filepath.IsAbs(path) {
		return // in a bucket
	}
	if info, err := os.Stat(path); err == nil {
		o.written = append(o.written, writtenDir{path, info})
	}
}

// named takes an argument, for which inputs are found next. It returns a permanent error if the job would replace what
// that names.
func (o *ownFiles) named(arg string) error {
	names := o.names(arg)
	self := names[len(names)-1]
	if info, err := os.Stat(self); err == nil && info.IsDir() {
		self = o.place(self)
	}
	written, same := o.places[self]
	for _, name := range names {
		if file, ok := o.files[name]; ok {
			written, same = file, true
		}
	}
	if same {
		return ledger.Permanent(job.ErrorInput, fmt.Errorf(
			"input %s is the same as %s, which the job writes: it would be replaced; name another input, or another place to write to", arg, written))
	}
	o.outside = o.outside[:0]
	for place := range o.places {
		if !slices.ContainsFunc(append(names, self), func(name string) bool { return below(name, place) }) {
			o.outside = append(o.outside, place)
		}
	}
	return nil
}

// checkNamed returns a permanent error if the spec names an input that the job would replace.
func checkNamed(spec job.Spec) error {
	own := ownFilesOf(spec)
	for _, arg := range spec.Inputs() {
		if arg == stdinName {
			continue
		}
		if err := own.named(arg); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether the job writes an object that was found at a location with these names, for the argument in hand.
// An argument that lies in a place of the job means what is there, and so does a link from elsewhere.
func (o *ownFiles) has(where string, names []string) bool {
	if slices.ContainsFunc(names, func(name string) bool { return o.files[name] != "" }) {
		return true
	}
	self := names[len(names)-1]
	if len(names) > 1 { // it is a link
		self = o.name(where)
	}
	return slices.ContainsFunc(o.outside, func(place string) bool { return below(self, place) })
}

// check returns a permanent error if a file that results are split into could replace an input: which of them are of an
// earlier run shows only by their names, and those are anybody's.
func (o *ownFiles) check(url string, names []string) error {
	if o.split == "" || !slices.ContainsFunc(names, func(name string) bool { return location.Covers(o.split, name) }) {
		return nil
	}
	return ledger.Permanent(job.ErrorInput, fmt.Errorf(
		"input %s could also be a file of the output %s, which would replace it: name another output, or other inputs", url, o.split))
}

// names returns the names of what is at a location.
func (o *ownFiles) names(where string) []string {
	if filepath.IsAbs(where) {
		if info, err := os.Lstat(where); err == nil && info.Mode().IsRegular() { // the usual case: only its directory can be a link
			return []string{o.name(where)}
		}
	}
	names := store.Names(where)
	if len(names) == 0 {
		return []string{where} // it is refused when it is opened
	}
	for i := range names {
		names[i] = o.name(names[i])
	}
	return names
}

// name returns the one name of a file, by which two of them are compared. Its directory may be mounted in two places,
// and the case of letters may not count there.
func (o *ownFiles) name(name string) string {
	if !filepath.IsAbs(name) {
		return name // of an object in a bucket
	}
	if parent := filepath.Dir(name); parent != name {
		name = filepath.Join(o.dir(parent), filepath.Base(name))
	}
	for own := range o.files {
		if own != name && strings.EqualFold(own, name) && sameEntry(own, name) {
			return own
		}
	}
	return name
}

// place is dir, or the name of a prefix in a bucket.
func (o *ownFiles) place(name string) string {
	if !filepath.IsAbs(name) {
		return name
	}
	return o.dir(name)
}

// dir returns the one name of a directory.
func (o *ownFiles) dir(path string) string {
	if name, ok := o.dirs[path]; ok {
		return name
	}
	names := store.Names(path)
	name := names[len(names)-1]
	info, err := os.Stat(name)
	same := func(w writtenDir) bool { return err == nil && os.SameFile(w.info, info) }
	if i := slices.IndexFunc(o.written, same); i >= 0 {
		name = o.written[i].path
	} else if parent := filepath.Dir(name); parent != name {
		name = filepath.Join(o.dir(parent), filepath.Base(name))
	}
	o.dirs[path] = name
	return name
}

// sameEntry reports whether two names, links not followed, are those of one file.
func sameEntry(a, b string) bool {
	infoA, errA := os.Lstat(a)
	infoB, errB := os.Lstat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// below reports whether a name lies in a place.
func below(name, place string) bool {
	rest, ok := strings.CutPrefix(name, strings.TrimRight(place, `/\`))
	return ok && rest != "" && (rest[0] == '/' || rest[0] == filepath.Separator)
}

// Reserved is a standard input that only one run of a job may read, which is named only after the
// worker has begun to work: until then nobody reads.
type Reserved struct {
	io.Reader

	once    sync.Once
	decided chan struct{}
	run     string // set before decided is closed
}

// Reserve returns r for one run, which For names later.
func Reserve(r io.Reader) *Reserved { return &Reserved{Reader: r, decided: make(chan struct{})} }

// For gives the input to the run with this ID (see [wire.Ref]). Only the first call counts.
func (r *Reserved) For(run string) {
	r.once.Do(func() {
		r.run = run
		close(r.decided)
	})
}

var errStdinOfAnother = errors.New("the standard input belongs to a newer run of the job")

// await waits until the input's run is named. It returns a permanent error if it is another one.
func (r *Reserved) await(ctx context.Context, run string) error {
	select {
	case <-r.decided:
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.run != run {
		return ledger.Permanent(job.ErrorInput, errStdinOfAnother)
	}
	return nil
}
