package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/store/object"
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

// locks exclude the Guards and Claims of this process in a bucket from each other, by
// location and key, across every Access.
var locks = namedLocks{locks: map[string]*namedLock{}}

type namedLocks struct {
	mu    sync.Mutex
	locks map[string]*namedLock
}

type namedLock struct {
	held  chan struct{} // holds one value while the lock is held
	users int           // how many hold it or wait for it
}

// lock waits for the lock of that name. The caller calls unlock once.
func (l *namedLocks) lock(ctx context.Context, name string) (unlock func(), err error) {
	l.mu.Lock()
	lock := l.locks[name]
	if lock == nil {
		lock = &namedLock{held: make(chan struct{}, 1)}
		l.locks[name] = lock
	}
	lock.users++
	l.mu.Unlock()
	select {
	case lock.held <- struct{}{}:
		return func() { <-lock.held; l.leave(name, lock) }, nil
	case <-ctx.Done():
		l.leave(name, lock)
		return nil, ctx.Err()
	}
}

func (l *namedLocks) leave(name string, lock *namedLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lock.users--; lock.users == 0 {
		delete(l.locks, name)
	}
}

// sweepers is how many objects of a bucket are deleted at once.
const sweepers = 16

// List implements object.Dir.
func (d *Dir) List(ctx context.Context, prefix string) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		if err := object.CheckPrefix(prefix); err != nil {
			yield(object.Info{}, err)
			return
		}
		for info, err := range d.bucket.Objects(ctx, d.prefix+prefix) {
			if err != nil {
				yield(object.Info{}, err)
				return
			}
			info.Key = strings.TrimPrefix(info.Key, d.prefix)
			if object.Reserved(path.Base(info.Key)) {
				continue
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

// Objects yields the objects whose keys begin with prefix, with their whole keys. Objects that only
// represent a directory, with a '/' at their end, are left out.
func (b *Bucket) Objects(ctx context.Context, prefix string) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		list := b.blob.List(&blob.ListOptions{Prefix: prefix})
		for {
			entry, err := list.Next(ctx)
			if err == io.EOF {
				return
			}
			if err == nil {
				err = ctx.Err() // within a page, nothing else checks it
			}
			if err != nil {
				yield(object.Info{}, bucketError("listing", b.where(prefix), err))
				return
			}
			if strings.HasSuffix(entry.Key, "/") {
				continue
			}
			info, err := b.listedInfo(ctx, entry)
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// listedInfo adds the ETag to a listed object, which package blob leaves out.
func (b *Bucket) listedInfo(ctx context.Context, entry *blob.ListObject) (object.Info, error) {
	var raw types.Object
	if entry.As(&raw) {
		return objectInfo(entry.Key, entry.Size, entry.ModTime, aws.ToString(raw.ETag)), nil
	}
	return b.Stat(ctx, entry.Key, entry.Key)
}

// Sweep implements object.Dir.
func (d *Dir) Sweep(ctx context.Context, prefix string, keep func(key string) bool) (int, error) {
	if err := object.CheckPrefix(prefix); err != nil {
		return 0, err
	}
	removed, err := d.abortUploads(ctx, prefix)
	if err != nil || keep == nil {
		return removed, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		doomed = make(chan string)
	)
	for range sweepers {
		wg.Go(func() {
			for key := range doomed {
				if err := trap.Call("deleting an object", func() error { return d.delete(ctx, key) }); err != nil {
					cancel(err)
					continue
				}
				mu.Lock()
				removed++
				mu.Unlock()
			}
		})
	}
	for info, err := range d.List(ctx, prefix) {
		if err != nil {
			cancel(err)
			break
		}
		if !keep(info.Key) {
			doomed <- info.Key
		}
	}
	close(doomed)
	wg.Wait()
	return removed, context.Cause(ctx)
}
