package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/stint-run/stint/internal/store/object"
)

// Dir is an object.Dir in a bucket. It also takes options for its writers: see object.CreateWith.
type Dir struct {
	bucket   *Bucket
	location string
	prefix   string // of every key: empty or ending in '/'
}

// Dir returns the Dir of all objects whose keys begin with prefix, which is empty or ends in '/'.
// location is what its Location returns.
func (b *Bucket) Dir(prefix, location string) *Dir {
	return &Dir{bucket: b, prefix: prefix, location: location}
}

// Location returns the bucket URL that the Dir was opened with.
func (d *Dir) Location() string { return d.location }

// Local returns false.
func (d *Dir) Local() (string, bool) { return "", false }

func (d *Dir) where(key string) string { return d.bucket.where(d.prefix + key) }

// Get implements object.Dir.
func (d *Dir) Get(ctx context.Context, key string) ([]byte, error) {
	if err := object.CheckKey(key); err != nil {
		return nil, err
	}
	r, err := d.bucket.Open(ctx, d.prefix+key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// Open implements object.Dir.
func (d *Dir) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := object.CheckKey(key); err != nil {
		return nil, err
	}
	return d.bucket.Open(ctx, d.prefix+key, offset, length)
}

// Stat implements object.Dir.
func (d *Dir) Stat(ctx context.Context, key string) (object.Info, error) {
	if err := object.CheckKey(key); err != nil {
		return object.Info{}, err
	}
	return d.bucket.Stat(ctx, d.prefix+key, key)
}

// Delete implements object.Dir.
func (d *Dir) Delete(ctx context.Context, key string) error {
	if err := object.CheckKey(key); err != nil {
		return err
	}
	return d.delete(ctx, key)
}

func (d *Dir) delete(ctx context.Context, key string) error {
	err := bucketError("deleting", d.where(key), d.bucket.blob.Delete(ctx, d.prefix+key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Guard implements object.Dir.
func (d *Dir) Guard(ctx context.Context, key, want string, fn func(context.Context) error) error {
	unlock, err := d.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	return object.Fence(ctx, d, key, want, fn)
}

// Claim implements object.Dir.
func (d *Dir) Claim(ctx context.Context, key, value string, admit func(held string) error) error {
	unlock, err := d.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	return object.Claim(ctx, d, key, value, admit)
}

func (d *Dir) lock(ctx context.Context, key string) (unlock func(), err error) {
	if err := object.CheckKey(key); err != nil {
		return nil, err
	}
	unlock, err = locks.lock(ctx, d.where(key))
	if err != nil {
		return nil, fmt.Errorf("waiting for the lock of %s: %w", d.where(key), err)
	}
	return unlock, nil
}
