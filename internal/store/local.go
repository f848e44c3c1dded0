package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// localDir is a Dir on a file system.
type localDir struct {
	access *Access
	root   string // absolute and clean, as written: symbolic links not resolved
}

func (d *localDir) Location() string      { return d.root }
func (d *localDir) Local() (string, bool) { return d.root, true }

// where is how messages call an object.
func (d *localDir) where(key string) string { return filepath.Join(d.root, filepath.FromSlash(key)) }

// existing returns the path of an object to read.
func (d *localDir) existing(key string) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	return d.access.admitPath(d.where(key))
}

// writable returns the path of an object to write, replace or remove.
func (d *localDir) writable(key string) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	return d.access.admitPlace(d.where(key))
}

func (d *localDir) Get(ctx context.Context, key string) ([]byte, error) {
	r, err := d.Open(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fileError("reading", d.where(key), err)
	}
	return data, nil
}

func (d *localDir) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	path, err := d.existing(key)
	if err != nil {
		return nil, err
	}
	r, err := openRange(ctx, path, d.where(key), offset, length)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
		return nil, missing("reading", d.where(key), "there is no such file")
	}
	return r, err
}

func (d *localDir) Stat(ctx context.Context, key string) (Info, error) {
	path, err := d.existing(key)
	if err != nil {
		return Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, syscall.ENOTDIR), err == nil && info.IsDir():
		return Info{}, missing("looking up", d.where(key), "there is no such file")
	case err != nil:
		return Info{}, fileError("looking up", d.where(key), err)
	}
	return fileInfo(key, info), nil
}

func fileInfo(key string, info fs.FileInfo) Info {
	return Info{Key: key, Size: info.Size(), ModTime: info.ModTime()}
}

func (d *localDir) Delete(ctx context.Context, key string) error {
	path, err := d.writable(key)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err == nil && info.IsDir() {
		return nil // no object
	}
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return fileError("deleting", d.where(key), err)
}

func (d *localDir) Guard(ctx context.Context, key, want string, fn func(context.Context) error) error {
	unlock, err := d.lock(ctx, key, false)
	if errors.Is(err, fs.ErrNotExist) {
		return &FencedError{Key: key, Want: want} // not even a directory
	}
	if err != nil {
		return err
	}
	defer unlock()
	return guard(ctx, d, key, want, fn)
}

// guard is the part of Guard under the lock.
func guard(ctx context.Context, d Dir, key, want string, fn func(context.Context) error) error {
	have, err := d.Get(ctx, key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || string(have) != want {
		return &FencedError{Key: key, Want: want, Have: string(have)}
	}
	return fn(ctx)
}

func (d *localDir) Claim(ctx context.Context, key, value string) error {
	unlock, err := d.lock(ctx, key, true)
	if err != nil {
		return err
	}
	defer unlock()
	return d.Put(ctx, key, []byte(value))
}

// lock takes the lock of a key. A missing directory is made, or else is fs.ErrNotExist.
func (d *localDir) lock(ctx context.Context, key string, makeDir bool) (unlock func(), err error) {
	path, err := d.writable(key)
	if err != nil {
		return nil, err
	}
	var f *os.File
	take := func() error {
		f, err = lockFile(ctx, path+lockSuffix)
		return err
	}
	if makeDir {
		_, err = inDir(filepath.Dir(path), take)
	} else {
		err = take()
	}
	if err != nil {
		_ = f.Close() // nothing was written to it; nil is no harm
		return nil, fileError("locking", d.where(key)+lockSuffix, err)
	}
	return func() { _ = f.Close() }, nil
}
