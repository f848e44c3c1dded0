package local

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
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/store/object"
)

// Walk visits every file below the directory root, without hidden ones, in the byte order of their
// slash-separated names. Links to directories are not followed. It returns fs.ErrNotExist if root is
// missing, and the first error of visit.
func Walk(ctx context.Context, root string, visit func(path string, entry fs.DirEntry) error) error {
	w := walker{root: root, file: func(_, path string, entry fs.DirEntry) error { return visit(path, entry) }}
	return w.walk(ctx, "")
}

// walker visits the files of a directory tree in the byte order of their keys.
type walker struct {
	root string
	// hidden: names with a leading dot are visited too.
	hidden bool
	// file is called for everything that is not a directory; fs.SkipAll ends the walk.
	file func(key, path string, entry fs.DirEntry) error
	// dir, if not nil, is called for every directory below root after its content.
	dir func(path string)
}

// walk visits every file whose key begins with prefix; a temporary file has the key that it was made
// for. Directories that vanish meanwhile are left out; if the first one is missing,
// fs.ErrNotExist is returned.
func (w *walker) walk(ctx context.Context, prefix string) error {
	parent, _ := path.Split(prefix)
	err := w.walkDir(ctx, parent, prefix)
	if errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

// walkDir visits the directory of the keys that begin with parent, which is empty or ends in '/'.
func (w *walker) walkDir(ctx context.Context, parent, prefix string) error {
	dir := filepath.Join(w.root, filepath.FromSlash(parent))
	listing := stall.Begin(ctx, "listing", dir)
	entries, err := os.ReadDir(dir)
	listing.Close()
	if err != nil {
		return err
	}
	// Keys of a directory's content compare as its name with a slash: "a-b" lies before "a/b".
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !w.hidden && entry.Name()[0] == '.' {
			continue
		}
		if err := w.visit(ctx, parent, prefix, entry); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) visit(ctx context.Context, parent, prefix string, entry fs.DirEntry) error {
	key := parent + sortName(entry)
	full := filepath.Join(w.root, filepath.FromSlash(key))
	if !entry.IsDir() {
		final := key
		if name, ok := object.TempOf(entry.Name()); ok {
			final = parent + name
		}
		if !strings.HasPrefix(final, prefix) {
			return nil
		}
		return w.file(key, full, entry)
	}
	if !strings.HasPrefix(key, prefix) && !strings.HasPrefix(prefix, key) {
		return nil
	}
	if err := w.walkDir(ctx, key, prefix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if w.dir != nil && strings.HasPrefix(key, prefix) {
		w.dir(full)
	}
	return nil
}

func sortName(entry fs.DirEntry) string {
	if entry.IsDir() {
		return entry.Name() + "/"
	}
	return entry.Name()
}

// List implements object.Dir.
func (d *Dir) List(ctx context.Context, prefix string) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		w := walker{root: d.root, hidden: true, file: func(key, path string, entry fs.DirEntry) error {
			if object.Reserved(entry.Name()) {
				return nil
			}
			info, err := os.Stat(path) // follows links
			if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
				return nil
			}
			if err != nil {
				return Error("listing", d.where(key), err)
			}
			if !yield(Info(key, info), nil) {
				return fs.SkipAll
			}
			return nil
		}}
		if err := d.walk(ctx, &w, prefix); err != nil {
			yield(object.Info{}, err)
		}
	}
}

// walk walks the Dir; a missing one is empty.
func (d *Dir) walk(ctx context.Context, w *walker, prefix string) error {
	if err := object.CheckPrefix(prefix); err != nil {
		return err
	}
	if _, err := d.admission.Existing(d.root); err != nil {
		return err
	}
	err := w.walk(ctx, prefix)
	if errors.Is(err, fs.ErrNotExist) || prefix != "" && errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return Error("listing", pathErr.Path, err)
	}
	return err
}

// Sweep implements object.Dir.
func (d *Dir) Sweep(ctx context.Context, prefix string, keep func(key string) bool) (int, error) {
	if err := object.CheckPrefix(prefix); err != nil {
		return 0, err
	}
	parent, _ := path.Split(prefix)
	if err := d.admission.Cleared(d.where(parent)); err != nil {
		return 0, err
	}
	s := sweep{dir: d, keep: keep}
	s.removing.SetLimit(removers)
	w := walker{root: d.root, hidden: true, file: s.file, dir: func(path string) {
		s.dirs = append(s.dirs, path)
	}}
	err := d.walk(ctx, &w, prefix)
	if removeErr := s.removing.Wait(); err == nil {
		err = removeErr
	}
	for _, lock := range s.locks {
		if _, statErr := os.Lstat(strings.TrimSuffix(lock, object.LockSuffix)); errors.Is(statErr, fs.ErrNotExist) {
			removeLock(lock)
		}
	}
	if strings.HasSuffix(prefix, "/") {
		s.dirs = append(s.dirs, d.where(prefix))
	}
	for _, dir := range s.dirs {
		_ = os.Remove(dir) // fails if something is left in it
	}
	return int(s.removed.Load()), err
}

// removers is how many files are removed at once: freeing the space of a large one takes time.
const removers = 4

// sweep is one Sweep of a local directory.
type sweep struct {
	dir      *Dir
	keep     func(key string) bool
	removing errgroup.Group
	removed  atomic.Int64
	locks    []string // lock files seen
	dirs     []string // directories seen, the deepest first
}

func (s *sweep) file(key, file string, entry fs.DirEntry) error {
	if entry.Type()&^fs.ModeSymlink != 0 {
		return nil // a device, pipe or socket: not an object
	}
	if strings.HasSuffix(entry.Name(), object.LockSuffix) {
		s.locks = append(s.locks, file)
		return nil
	}
	if _, ok := object.TempOf(entry.Name()); !ok && (s.keep == nil || s.keep(key)) {
		return nil
	}
	s.removing.Go(func() error { return trap.Call("deleting a file", func() error { return s.remove(key, file) }) })
	return nil
}

func (s *sweep) remove(key, file string) error {
	err := os.Remove(file)
	if err == nil {
		s.removed.Add(1)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return Error("deleting", s.dir.where(key), err)
}
