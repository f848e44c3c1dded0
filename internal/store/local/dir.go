package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stint-run/stint/internal/stall"
	"github.com/stint-run/stint/internal/store/object"
)

// Admission decides which paths may be used.
type Admission interface {
	// Existing returns the path to use for the absolute path of a file or directory, after the
	// symbolic links in it have been followed, or an error if it must not be reached.
	Existing(path string) (string, error)
	// Replaced is Existing for a path whose last element is about to be written, replaced or
	// removed: a symbolic link there is not followed.
	Replaced(path string) (string, error)
	// Cleared returns an error unless everything below the absolute path of a directory may be removed.
	Cleared(dir string) error
}

// Dir is an object.Dir in a directory. It also takes options for its writers: see
// object.CreateWith.
type Dir struct {
	admission Admission
	root      string // absolute and clean, as written: symbolic links not resolved
	perm      fs.FileMode
}

// OpenDir returns the Dir at path, relative to the working directory or absolute; location is its
// name in messages. It need not exist yet; the first write makes it. Errors: those of admission, and
// syscall.ENOTDIR if there is a file at path.
func OpenDir(location, path string, admission Admission) (*Dir, error) {
	root, err := filepath.Abs(path)
	if err != nil {
		return nil, Error("opening", location, err)
	}
	resolved, err := admission.Existing(root)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(resolved)
	switch {
	case err == nil && !info.IsDir():
		return nil, Error("opening", location, syscall.ENOTDIR)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, Error("opening", location, err)
	}
	return &Dir{admission: admission, root: root, perm: 0o666}, nil
}

// Narrowed returns the same directory with writers that give files no other access rights than perm.
// Otherwise they have all that the process's umask leaves.
func (d *Dir) Narrowed(perm fs.FileMode) object.Dir {
	return &Dir{admission: d.admission, root: d.root, perm: d.perm & perm}
}

// Location returns the absolute path of the directory.
func (d *Dir) Location() string { return d.root }

// Local returns the absolute path of the directory.
func (d *Dir) Local() (string, bool) { return d.root, true }

// where is an object's name in messages.
func (d *Dir) where(key string) string { return filepath.Join(d.root, filepath.FromSlash(key)) }

// existing returns the path of an object to read.
func (d *Dir) existing(key string) (string, error) {
	if err := object.CheckKey(key); err != nil {
		return "", err
	}
	return d.admission.Existing(d.where(key))
}

// writable returns the path of an object to write, replace or remove.
func (d *Dir) writable(key string) (string, error) {
	if err := object.CheckKey(key); err != nil {
		return "", err
	}
	return d.admission.Replaced(d.where(key))
}

// Get implements object.Dir.
func (d *Dir) Get(ctx context.Context, key string) ([]byte, error) {
	r, err := d.Open(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, Error("reading", d.where(key), err)
	}
	return data, nil
}

// Open implements object.Dir.
func (d *Dir) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	path, err := d.existing(key)
	if err != nil {
		return nil, err
	}
	r, err := Open(ctx, path, d.where(key), offset, length)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
		return nil, object.Missing("reading", d.where(key), "there is no such file")
	}
	return r, err
}

// Stat implements object.Dir.
func (d *Dir) Stat(ctx context.Context, key string) (object.Info, error) {
	path, err := d.existing(key)
	if err != nil {
		return object.Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return object.Info{}, err
	}
	defer stall.Begin(ctx, "looking up", d.where(key)).Close()
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, syscall.ENOTDIR), err == nil && info.IsDir():
		return object.Info{}, object.Missing("looking up", d.where(key), "there is no such file")
	case err != nil:
		return object.Info{}, Error("looking up", d.where(key), err)
	}
	return Info(key, info), nil
}

// Delete implements object.Dir.
func (d *Dir) Delete(ctx context.Context, key string) error {
	path, err := d.writable(key)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	defer stall.Begin(ctx, "deleting", d.where(key)).Close()
	info, err := os.Lstat(path)
	if err == nil && !removable(path, info) {
		return nil // not an object
	}
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return Error("deleting", d.where(key), err)
}

// removable reports whether what is at a path may be removed: a file, or a link that is replaced as a file is.
func removable(path string, info fs.FileInfo) bool {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return true
	case mode&fs.ModeSymlink == 0:
		return false
	}
	there, err := placeAt(path, path)
	return err == nil && !there.sink
}

// Guard implements object.Dir.
func (d *Dir) Guard(ctx context.Context, key, want string, fn func(context.Context) error) error {
	unlock, err := d.lock(ctx, key, false)
	if errors.Is(err, fs.ErrNotExist) {
		return &object.FencedError{Key: key, Want: want} // not even a directory
	}
	if err != nil {
		return err
	}
	defer unlock()
	return object.Fence(ctx, d, key, want, fn)
}

// Claim implements object.Dir.
func (d *Dir) Claim(ctx context.Context, key, value string, admit func(held string) error) error {
	unlock, err := d.lock(ctx, key, true)
	if err != nil {
		return err
	}
	defer unlock()
	return object.Claim(ctx, d, key, value, admit)
}

// lock takes the lock of a key. A missing directory is made if makeDir is set; otherwise it is
// fs.ErrNotExist.
func (d *Dir) lock(ctx context.Context, key string, makeDir bool) (unlock func(), err error) {
	path, err := d.writable(key)
	if err != nil {
		return nil, err
	}
	var f *os.File
	take := func() error {
		f, err = lockFile(ctx, path+object.LockSuffix)
		return err
	}
	if makeDir {
		_, err = inDir(filepath.Dir(path), take)
	} else {
		err = take()
	}
	if err != nil {
		_ = f.Close() // nothing was written to it; closing nil does no harm
		return nil, Error("locking", d.where(key)+object.LockSuffix, err)
	}
	return func() { _ = f.Close() }, nil
}
