package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/stint-run/stint/internal/store/local"

	"github.com/stint-run/stint/internal/store/object"
)

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
	var pathErr *fs.PathError
	if !errors.As(err, &pathErr) {
		return err
	}
	if filepath.IsAbs(pathErr.Path) {
		return local.Error("reading input", pathErr.Path, err)
	}
	return local.Error("reading input", filepath.Join(dir, pathErr.Path), err)
}
