package store

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/stint-run/stint/internal/data/store/local"
)

// admission lets a local.Dir reach what its Access allows.
type admission struct{ access *Access }

func (a admission) Existing(path string) (string, error) { return a.access.admitPath(path) }
func (a admission) Replaced(path string) (string, error) { return a.access.admitReplaced(path) }
func (a admission) Cleared(dir string) error             { return a.access.admitCleared(dir) }

// admitPath returns the path to read for an absolute one: itself if everything is allowed,
// otherwise the path with its symbolic links resolved, if that lies below a root. For a path that
// does not exist (yet), the part of it that exists decides.
func (a *Access) admitPath(path string) (string, error) { return a.admitBelow(path, a.readable()) }

// readable returns the roots below which everything may be read; empty: there is no limit.
func (a *Access) readable() []string {
	if len(a.Allow) == 0 {
		return nil
	}
	return slices.Concat(a.Allow, a.AllowRead)
}

// admitBelow is admitPath for some of the roots.
func (a *Access) admitBelow(path string, roots []string) (string, error) {
	if len(roots) == 0 {
		return path, nil
	}
	resolved, err := resolve(path)
	if err != nil {
		return "", local.Error("opening", path, err)
	}
	for _, root := range roots {
		p, err := parse(root)
		if err != nil {
			return "", err
		}
		if !p.isLocal() {
			continue
		}
		if root, err = resolve(p.path); err == nil && isBelow(root, resolved) {
			return resolved, nil
		}
	}
	return "", &DeniedError{path, roots}
}

// admitReplaced returns the path to use for one whose last element is about to be written, replaced or
// removed: a symbolic link there is not followed. It is an error if the path is protected.
func (a *Access) admitReplaced(path string) (string, error) {
	if err := a.checkProtected(path, false); err != nil || len(a.Allow) == 0 {
		return path, err
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return a.admitBelow(path, a.Allow)
	}
	dir, err := a.admitBelow(filepath.Dir(path), a.Allow)
	return filepath.Join(dir, filepath.Base(path)), err
}

// admitCleared returns an error unless everything below a directory may be removed.
func (a *Access) admitCleared(dir string) error {
	if err := a.checkProtected(dir, true); err != nil {
		return err
	}
	_, err := a.admitBelow(dir, a.Allow)
	return err
}

// checkProtected returns an error if the path is protected or lies below a directory that is. With
// below it is also an error if something protected lies below the path.
func (a *Access) checkProtected(path string, below bool) error {
	if len(a.Protect) == 0 {
		return nil
	}
	place, err := resolve(filepath.Dir(path))
	if err != nil {
		return local.Error("opening", path, err)
	}
	places := []string{filepath.Join(place, filepath.Base(path))}
	if below { // what is removed lies behind a link
		if place, err = resolve(path); err != nil {
			return local.Error("opening", path, err)
		}
		places = append(places, place)
	}
	for _, protected := range a.Protect {
		for _, name := range namesOf(protected) {
			for _, place := range places {
				if isBelow(name, place) || below && isBelow(place, name) {
					return &ProtectedError{Location: path, Protected: protected}
				}
			}
		}
	}
	return nil
}

// maxLinks bounds the symbolic links that are followed in one path.
const maxLinks = 40

// namesOf returns every name by which a path is found, each in a directory without symbolic links: the path
// itself, and each symbolic link on the way to it, because replacing one of those replaces what is found.
func namesOf(path string) (names []string) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	at, rest := root, strings.Split(strings.TrimPrefix(path, root), string(filepath.Separator))
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(next)
		if err != nil || links == maxLinks {
			at = next
			continue
		}
		links++
		names = append(names, next)
		if filepath.IsAbs(target) {
			at = root
		}
		rest = append(strings.Split(target, string(filepath.Separator)), rest...)
	}
	return append(names, at)
}

// admitBase returns an error if no file below the directory base, existing or missing, can be
// allowed: neither does base lie below a root, nor a root below base.
func (a *Access) admitBase(base string) error {
	_, denied := a.admitPath(base)
	if denied == nil {
		return nil
	}
	resolved, err := resolve(base)
	if err != nil {
		return local.Error("opening", base, err)
	}
	for _, root := range a.readable() {
		p, err := parse(root)
		if err != nil || !p.isLocal() {
			continue
		}
		if root, err = resolve(p.path); err == nil && isBelow(resolved, root) {
			return nil
		}
	}
	return denied
}

// admitBucket returns an error if the key, or prefix, of p lies below none of the roots.
func (a *Access) admitBucket(p parsed, location string, roots []string) error {
	if len(roots) == 0 {
		return nil
	}
	for _, root := range roots {
		r, err := parse(root)
		if err != nil {
			return err
		}
		if r.scheme != p.scheme || r.bucket != p.bucket || !sameQuery(r.query, p.query) {
			continue
		}
		under := strings.TrimRight(r.key, "/")
		if under == "" || p.key == under || strings.HasPrefix(p.key, under+"/") {
			return nil
		}
	}
	return &DeniedError{location, roots}
}

func sameQuery(a, b string) bool {
	if a == b {
		return true
	}
	va, errA := url.ParseQuery(a)
	vb, errB := url.ParseQuery(b)
	return errA == nil && errB == nil && reflect.DeepEqual(va, vb)
}

// resolve makes a path absolute and resolves the symbolic links of the part of it that exists. A
// link to a missing target is an error: it cannot be decided whether the target is allowed.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for {
		resolved, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(resolved, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return "", err
		}
		if info, statErr := os.Lstat(path); statErr == nil && info.Mode()&fs.ModeSymlink != 0 {
			return "", err
		}
		parent := filepath.Dir(path)
		if parent == path {
			return filepath.Join(path, rest), nil
		}
		rest = filepath.Join(filepath.Base(path), rest)
		path = parent
	}
}

// isBelow reports whether the absolute path is root or lies under it.
func isBelow(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// admitBucketBase returns an error if no object whose key begins with p's can be allowed.
func (a *Access) admitBucketBase(p parsed, location string) error {
	roots := a.readable()
	err := a.admitBucket(p, location, roots)
	if err == nil {
		return nil
	}
	for _, root := range roots {
		r, parseErr := parse(root)
		if parseErr == nil && r.scheme == p.scheme && r.bucket == p.bucket && sameQuery(r.query, p.query) && strings.HasPrefix(r.key, p.key) {
			return nil
		}
	}
	return err
}
