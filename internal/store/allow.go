package store

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
)

// admitPath returns the path to use for an absolute one: itself where everything is allowed,
// otherwise the path with its symbolic links resolved, if that lies below a root. What does not
// exist (yet) is judged by the part that does.
func (a *Access) admitPath(path string) (string, error) {
	if len(a.Allow) == 0 {
		return path, nil
	}
	resolved, err := resolve(path)
	if err != nil {
		return "", fileError("opening", path, err)
	}
	for _, root := range a.Allow {
		p, err := parse(root)
		if err != nil {
			return "", err
		}
		if !p.isLocal() {
			continue
		}
		if root, err = resolve(p.path); err == nil && below(root, resolved) {
			return resolved, nil
		}
	}
	return "", &DeniedError{path, a.Allow}
}

// admitPlace is admitPath for the final element of a path that is about to be replaced: a
// symbolic link there is not followed.
func (a *Access) admitPlace(path string) (string, error) {
	if len(a.Allow) == 0 {
		return path, nil
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return a.admitPath(path)
	}
	dir, err := a.admitPath(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

// admitBase returns an error unless a file below an existing or missing directory base could be
// allowed: base lies below a root, or a root below base.
func (a *Access) admitBase(base string) error {
	_, denied := a.admitPath(base)
	if denied == nil {
		return nil
	}
	resolved, err := resolve(base)
	if err != nil {
		return fileError("opening", base, err)
	}
	for _, root := range a.Allow {
		p, err := parse(root)
		if err != nil || !p.isLocal() {
			continue
		}
		if root, err = resolve(p.path); err == nil && below(resolved, root) {
			return nil
		}
	}
	return denied
}

// admitBucket returns an error unless the key, or prefix, of p lies below a root.
func (a *Access) admitBucket(p place, location string) error {
	if len(a.Allow) == 0 {
		return nil
	}
	for _, root := range a.Allow {
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
	return &DeniedError{location, a.Allow}
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
// link to nowhere is an error: where it leads cannot be judged.
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

// below tells whether the absolute path is root or lies under it.
func below(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// admitBucketBase returns an error unless an object whose key begins with p's could be allowed.
func (a *Access) admitBucketBase(p place, location string) error {
	err := a.admitBucket(p, location)
	if err == nil {
		return nil
	}
	for _, root := range a.Allow {
		r, parseErr := parse(root)
		if parseErr == nil && r.scheme == p.scheme && r.bucket == p.bucket && sameQuery(r.query, p.query) && strings.HasPrefix(r.key, p.key) {
			return nil
		}
	}
	return err
}
