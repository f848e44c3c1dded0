package store

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/stint-run/stint/internal/data/store/local"
	"github.com/stint-run/stint/internal/data/store/object"
)

// Expand turns what a user wrote as input into input objects: files, directories (every regular
// file below), globs with *, ?, [a-z], {a,b} and **, bucket URLs, bucket prefixes ending in '/',
// and globs in bucket URLs. The matches of an argument come in the byte order of their names, the
// arguments in the order given, duplicates included. Relative paths start at the working
// directory. The caller removes "-" first.
//
// A name that exists exactly as given is taken literally, even if it has wildcards in it.
// Hidden files and directories, with a leading dot, are found only by a name or glob with that
// dot. Symbolic links to files are followed; those to directories only if the argument names
// them, or through a glob without **.
//
// Errors: *NoMatchError for a glob, directory or prefix without files, fs.ErrNotExist for a
// missing file, *DeniedError for a match outside Allow, *LocationError for a bad URL or pattern.
// Anything that cannot be read is an error; it is not left out. After an error nothing more is
// yielded. The inputs are looked at one by one as they are yielded: there may be millions.
func (a *Access) Expand(ctx context.Context, args []string) iter.Seq2[Input, error] {
	return func(yield func(Input, error) bool) {
		for _, arg := range args {
			m := matches{arg: arg, yield: yield}
			err := a.expand(ctx, arg, &m)
			if m.ended {
				return
			}
			if err == nil && m.count == 0 {
				err = &NoMatchError{arg}
			}
			if err != nil {
				yield(Input{}, err)
				return
			}
		}
	}
}

// matches are those of one argument.
type matches struct {
	arg   string
	yield func(Input, error) bool
	count int
	ended bool // the caller wants no more
}

// add reports whether more are wanted.
func (m *matches) add(input Input) bool {
	m.count++
	m.ended = !m.yield(input, nil)
	return !m.ended
}

func (a *Access) expand(ctx context.Context, arg string, m *matches) error {
	p, err := parse(arg)
	if err != nil {
		return err
	}
	if p.isLocal() {
		return a.expandPath(ctx, p.path, m)
	}
	return a.expandBucket(ctx, p, m)
}

func hasWildcard(name string) bool { return strings.ContainsAny(name, `*?[{`) }

func badPattern(arg string) error {
	return badLocation(arg, "it is not a valid pattern: close every [ and {, or put \\ before a literal wildcard")
}

func (a *Access) expandBucket(ctx context.Context, p parsed, m *matches) error {
	if p.key == "" || strings.HasSuffix(p.key, "/") {
		return a.expandObjects(ctx, p, m, p.key, func(key string) bool {
			return !hidden(strings.TrimPrefix(key, p.key))
		})
	}
	info, err := a.StatInput(ctx, m.arg)
	if err == nil {
		m.add(Input{URL: p.url(p.key), Info: info})
		return nil
	}
	wildcard := hasWildcard(p.key)
	if denied := new(DeniedError); !isMissing(err) && !(wildcard && errors.As(err, &denied)) {
		return err
	}
	if !wildcard {
		return a.hintPrefix(ctx, p, err)
	}
	if !doublestar.ValidatePattern(p.key) {
		return badPattern(m.arg)
	}
	base := p.key[:strings.IndexAny(p.key, `*?[{\`)]
	plain := strings.LastIndexByte(base, '/') + 1 // the length of the directories without wildcards
	dotted := hidden(p.key[plain:])
	return a.expandObjects(ctx, p, m, base, func(key string) bool {
		return doublestar.MatchUnvalidated(p.key, key) && (dotted || !hidden(key[plain:]))
	})
}

// expandObjects lists the objects below prefix that match.
func (a *Access) expandObjects(ctx context.Context, p parsed, m *matches, prefix string, match func(key string) bool) error {
	under := p
	under.key = prefix
	if err := a.admitBucketBase(under, m.arg); err != nil {
		return err
	}
	b, err := a.bucket(ctx, p)
	if err != nil {
		return err
	}
	for info, err := range b.Objects(ctx, prefix) {
		if err != nil {
			return err
		}
		if !match(info.Key) {
			continue
		}
		object := p
		object.key = info.Key
		url := p.url(info.Key)
		if err := a.admitBucket(object, url, a.readable()); err != nil {
			return err
		}
		info.Key = path.Base(info.Key)
		if !m.add(Input{URL: url, Info: info}) {
			return nil
		}
	}
	return nil
}

// hintPrefix adds to the error for a missing object that there are objects below it.
func (a *Access) hintPrefix(ctx context.Context, p parsed, err error) error {
	b, openErr := a.bucket(ctx, p)
	if openErr != nil {
		return err
	}
	for _, listErr := range b.Objects(ctx, p.key+"/") {
		if listErr == nil {
			return object.Missing("reading input", p.object(p.key), "there is no such object, but there are some below it: add a / at its end to take them all")
		}
		break
	}
	return err
}

// hidden reports whether an element of a slash-separated name has a leading dot.
func hidden(name string) bool { return strings.HasPrefix(name, ".") || strings.Contains(name, "/.") }

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func (a *Access) expandPath(ctx context.Context, path string, m *matches) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return local.Error("reading input", m.arg, err)
	}
	if hasWildcard(path) {
		if _, err := os.Lstat(full); isMissing(err) {
			return a.expandGlob(ctx, full, m)
		}
	}
	resolved, err := a.admitPath(full)
	if err != nil {
		return err
	}
	if IsPrefix(path) {
		resolved += string(filepath.Separator) // a file cannot be found under it
	}
	info, err := os.Stat(resolved)
	switch {
	case isMissing(err):
		return &object.OpError{Op: "reading input", Where: full, Err: fs.ErrNotExist, Text: "there is no such file", Next: "it must be where the worker runs"}
	case err != nil:
		return local.Error("reading input", full, err)
	case info.IsDir():
		return a.expandDir(ctx, full, m)
	}
	if err := local.CheckRegular("reading input", full, info); err != nil {
		return err
	}
	m.add(Input{URL: textual(full), Info: local.Info(filepath.Base(full), info)})
	return nil
}

// expandDir takes every file below a directory that is allowed.
func (a *Access) expandDir(ctx context.Context, dir string, m *matches) error {
	err := local.Walk(ctx, dir, func(path string, entry fs.DirEntry) error {
		input, ok, err := a.inputAt(path, entry.Type()&fs.ModeSymlink != 0)
		if ok && err == nil && !m.add(input) {
			return fs.SkipAll
		}
		return err
	})
	return inputError(dir, err)
}

// inputAt describes a file that was found. It is not ok if that is not a regular file: a directory behind
// a link, a pipe, a device.
func (a *Access) inputAt(path string, link bool) (input Input, ok bool, err error) {
	target := path
	if link {
		if target, err = a.admitPath(path); err != nil {
			return Input{}, false, err
		}
	}
	info, err := os.Stat(target)
	if err != nil {
		return Input{}, false, local.Error("reading input", path, err)
	}
	return Input{URL: textual(path), Info: local.Info(filepath.Base(path), info)}, info.Mode().IsRegular(), nil
}

func (a *Access) expandGlob(ctx context.Context, full string, m *matches) error {
	base, pattern := splitGlob(full)
	if !doublestar.ValidatePattern(pattern) {
		return badPattern(m.arg)
	}
	if err := a.admitBase(base); err != nil {
		return err
	}
	options := []doublestar.GlobOption{doublestar.WithFilesOnly(), doublestar.WithFailOnIOErrors(), doublestar.WithNoHidden()}
	if strings.Contains(pattern, "**") {
		options = append(options, doublestar.WithNoFollow()) // links could lead in circles
	}
	names, err := doublestar.Glob(rawFS(base), pattern, options...)
	if err != nil {
		return inputError(base, err)
	}
	slices.Sort(names)
	admitted := map[string]bool{} // directories
	for _, name := range slices.Compact(names) {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := filepath.Join(base, filepath.FromSlash(name))
		if err := a.admitMatch(path, admitted); err != nil {
			return err
		}
		entry, err := os.Lstat(path)
		if err != nil {
			return local.Error("reading input", path, err)
		}
		input, ok, err := a.inputAt(path, entry.Mode()&fs.ModeSymlink != 0)
		if err != nil {
			return err
		}
		if ok && !m.add(input) {
			return nil
		}
	}
	return nil
}

// splitGlob separates the directories that exist literally, even under names that look like
// patterns, from the pattern to match below them, which uses slashes.
func splitGlob(full string) (base, pattern string) {
	base = filepath.VolumeName(full) + string(filepath.Separator)
	pattern = strings.Trim(filepath.ToSlash(full[len(base)-1:]), "/")
	for {
		element, rest, more := strings.Cut(pattern, "/")
		next := filepath.Join(base, element)
		if info, err := os.Stat(next); !more || err != nil || !info.IsDir() {
			return base, pattern
		}
		base, pattern = next, rest
	}
}

// admitMatch is admitPath for one of many files. Directories that are allowed as a whole are
// remembered.
func (a *Access) admitMatch(path string, admitted map[string]bool) error {
	dir := filepath.Dir(path)
	if admitted[dir] {
		return nil
	}
	if _, err := a.admitPath(dir); err == nil {
		admitted[dir] = true
		return nil
	}
	_, err := a.admitPath(path)
	return err
}

// inputError names the directory that could not be read, below the one given.
func inputError(dir string, err error) error {
	pathErr, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	if filepath.IsAbs(pathErr.Path) {
		return local.Error("reading input", pathErr.Path, err)
	}
	return local.Error("reading input", filepath.Join(dir, pathErr.Path), err)
}

// rawFS is [os.DirFS] for names of any bytes: that one refuses names that are not UTF-8.
type rawFS string

func (r rawFS) path(name string) string { return filepath.Join(string(r), filepath.FromSlash(name)) }

// Open implements fs.FS.
func (r rawFS) Open(name string) (fs.File, error) { return os.Open(r.path(name)) }

// ReadDir implements fs.ReadDirFS.
func (r rawFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(r.path(name)) }

// Stat implements fs.StatFS.
func (r rawFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(r.path(name)) }
