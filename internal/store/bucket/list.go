package bucket

import (
	"context"
	"io"
	"iter"
	"path"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"

	"github.com/stint-run/stint/internal/store/object"
	"github.com/stint-run/stint/internal/trap"
)

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
