package local

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/data/store/object"
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
func OpenDir(location, path string, admission Admission) (object.Dir, error) {
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

// where returns an object's name in messages.
func (d *Dir) where(key string) string { return filepath.Join(d.root, filepath.FromSlash(key)) }

// existing returns the path of an object to read, unless the context has ended.
func (d *Dir) existing(ctx context.Context, key string) (string, error) {
	if err := cmp.Or(object.CheckKey(key), ctx.Err()); err != nil {
		return "", err
	}
	return d.admission.Existing(d.where(key))
}

// writable returns the path of an object to write, replace or remove, unless the context has ended.
func (d *Dir) writable(ctx context.Context, key string) (string, error) {
	if err := cmp.Or(object.CheckKey(key), ctx.Err()); err != nil {
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
	path, err := d.existing(ctx, key)
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
	path, err := d.existing(ctx, key)
	if err != nil {
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
	path, err := d.writable(ctx, key)
	if err != nil {
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
	there, err := targetAt(path, path)
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
	path, err := d.writable(ctx, key)
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

// Append implements object.Appender.
func (d *Dir) Append(ctx context.Context, key string, at int64, data []byte) error {
	path, err := d.writable(ctx, key)
	if err != nil {
		return err
	}
	defer stall.Begin(ctx, "writing", d.where(key)).Close()
	info, err := os.Lstat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() < at) {
		err = fs.ErrNotExist // not what was written there
	}
	if err != nil {
		return Error("writing", d.where(key), err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return Error("writing", d.where(key), err)
	}
	_, err = f.WriteAt(data, at)
	if err == nil {
		err = f.Sync()
	}
	return Error("writing", d.where(key), errors.Join(err, f.Close()))
}

const (
	firstLockPoll = time.Millisecond
	maxLockPoll   = 25 * time.Millisecond
)

// lockFile makes the file at path if it is missing and waits for an exclusive lock on it, which
// excludes every other opening of the file, in this process too. Closing the file unlocks it. If
// somebody removes the file while it is locked, two cannot hold the lock: the locked file must
// still be the one at path.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		if err := waitLock(ctx, f); err != nil {
			_ = f.Close() // the error of the lock is returned
			return nil, err
		}
		same, err := isAt(f, path)
		if same {
			return f, nil
		}
		_ = f.Close() // never written to
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// waitLock asks again and again, because a blocking request could not be cancelled.
func waitLock(ctx context.Context, f *os.File) error {
	poll := firstLockPoll
	for {
		locked, err := tryLock(f)
		if locked || err != nil {
			return err
		}
		if !backoff.Wait(poll, ctx.Done()) {
			return ctx.Err()
		}
		poll = min(2*poll, maxLockPoll)
	}
}

// removeLock removes a lock file unless somebody holds it.
func removeLock(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if locked, err := tryLock(f); !locked || err != nil {
		return false
	}
	same, _ := isAt(f, path)
	return same && os.Remove(path) == nil
}

func isAt(f *os.File, path string) (bool, error) {
	there, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(there, opened), err
}
