package store

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
)

// sweepers is how many objects of a bucket are deleted at once.
const sweepers = 16

func (d *bucketDir) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := checkPrefix(prefix); err != nil {
			yield(Info{}, err)
			return
		}
		for object, err := range objects(ctx, d.bucket, d.prefix+prefix, d.where(prefix)) {
			if err != nil {
				yield(Info{}, err)
				return
			}
			object.Key = strings.TrimPrefix(object.Key, d.prefix)
			if reserved(path.Base(object.Key)) {
				continue
			}
			if !yield(object, nil) {
				return
			}
		}
	}
}

// objects yields the objects of a bucket with keys, given in full, that begin with prefix. Those
// that only stand for a directory, with a '/' at their end, are left out.
func objects(ctx context.Context, b *blob.Bucket, prefix, where string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		list := b.List(&blob.ListOptions{Prefix: prefix})
		for {
			object, err := list.Next(ctx)
			if err == io.EOF {
				return
			}
			if err == nil {
				err = ctx.Err() // within a page, nobody else looks
			}
			if err != nil {
				yield(Info{}, bucketError("listing", where, err))
				return
			}
			if strings.HasSuffix(object.Key, "/") {
				continue
			}
			info, err := listedInfo(ctx, b, object, where)
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// listedInfo adds the ETag to a listed object, which package blob leaves out.
func listedInfo(ctx context.Context, b *blob.Bucket, object *blob.ListObject, where string) (Info, error) {
	var raw types.Object
	if object.As(&raw) {
		return objectInfo(object.Key, object.Size, object.ModTime, aws.ToString(raw.ETag)), nil
	}
	return statObject(ctx, b, object.Key, object.Key, where)
}

func (d *bucketDir) Sweep(ctx context.Context, prefix string, keep func(key string) bool) (int, error) {
	if err := checkPrefix(prefix); err != nil {
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
				if err := d.delete(ctx, key); err != nil {
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
