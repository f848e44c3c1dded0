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
)

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func (a *Access) expandPath(ctx context.Context, arg, path string) ([]Input, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, fileError("reading input", arg, err)
	}
	if hasWildcard(path) {
		if _, err := os.Lstat(full); isMissing(err) {
			return a.expandGlob(ctx, arg, full)
		}
	}
	resolved, err := a.admitPath(full)
	if err != nil {
		return nil, err
	}
	if IsPrefix(path) {
		resolved += string(filepath.Separator) // of a file, this is no name
	}
	info, err := os.Stat(resolved)
	switch {
	case isMissing(err):
		return nil, &opError{op: "reading input", where: full, err: fs.ErrNotExist, text: "there is no such file", next: "it must lie where the worker runs"}
	case err != nil:
		return nil, fileError("reading input", full, err)
	case info.IsDir():
		return a.expandDir(ctx, arg, full)
	}
	if err := checkRegular("reading input", full, info); err != nil {
		return nil, err
	}
	return []Input{{URL: full, Info: fileInfo(filepath.Base(full), info)}}, nil
}

// expandDir takes every file below a directory that is allowed.
func (a *Access) expandDir(ctx context.Context, arg, dir string) ([]Input, error) {
	var inputs []Input
	w := walker{root: dir, file: func(key, path string, entry fs.DirEntry) error {
		input, ok, err := a.inputAt(path, entry.Type()&fs.ModeSymlink != 0)
		if ok {
			inputs = append(inputs, input)
		}
		return err
	}}
	if err := w.walk(ctx, ""); err != nil {
		return nil, inputError(dir, err)
	}
	if len(inputs) == 0 {
		return nil, &NoMatchError{arg}
	}
	return inputs, nil
}

// inputAt describes a file found. It is not ok where there is no regular file: a directory behind
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
		return Input{}, false, fileError("reading input", path, err)
	}
	return Input{URL: path, Info: fileInfo(filepath.Base(path), info)}, info.Mode().IsRegular(), nil
}

func (a *Access) expandGlob(ctx context.Context, arg, full string) ([]Input, error) {
	base, pattern := splitGlob(full)
	if !doublestar.ValidatePattern(pattern) {
		return nil, badPattern(arg)
	}
	if err := a.admitBase(base); err != nil {
		return nil, err
	}
	options := []doublestar.GlobOption{doublestar.WithFilesOnly(), doublestar.WithFailOnIOErrors(), doublestar.WithNoHidden()}
	if strings.Contains(pattern, "**") {
		options = append(options, doublestar.WithNoFollow()) // links could lead in circles
	}
	names, err := doublestar.Glob(os.DirFS(base), pattern, options...)
	if err != nil {
		return nil, inputError(base, err)
	}
	slices.Sort(names)
	var inputs []Input
	admitted := map[string]bool{} // directories
	for _, name := range slices.Compact(names) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		path := filepath.Join(base, filepath.FromSlash(name))
		if err := a.admitMatch(path, admitted); err != nil {
			return nil, err
		}
		entry, err := os.Lstat(path)
		if err != nil {
			return nil, fileError("reading input", path, err)
		}
		input, ok, err := a.inputAt(path, entry.Mode()&fs.ModeSymlink != 0)
		if err != nil {
			return nil, err
		}
		if ok {
			inputs = append(inputs, input)
		}
	}
	if len(inputs) == 0 {
		return nil, &NoMatchError{arg}
	}
	return inputs, nil
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
		return fileError("reading input", pathErr.Path, err)
	}
	return fileError("reading input", filepath.Join(dir, pathErr.Path), err)
}
