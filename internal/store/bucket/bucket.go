// Package bucket keeps objects in a bucket of an object store, behind gocloud.dev/blob.
package bucket

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/stint-run/stint/internal/store/object"
)

// Bucket is an open bucket. It is safe for concurrent use.
type Bucket struct {
	name string
	base string // the URL without a query, for messages: "s3://name"
	blob *blob.Bucket

	conditions  conditions
	mu          sync.Mutex
	conditional *bool // whether the service has conditional writes; nil: not known yet
}

// Buckets in memory outlive every Access: they belong to the process.
var (
	memMu      sync.Mutex
	memBuckets = map[string]*blob.Bucket{}
)

// Mem returns the bucket in the process's memory of that name. It must not be closed.
func Mem(name string) *Bucket {
	memMu.Lock()
	defer memMu.Unlock()
	b := memBuckets[name]
	if b == nil {
		b = memblob.OpenBucket(nil)
		memBuckets[name] = b
	}
	return &Bucket{name: name, base: "mem://" + name, blob: b, conditions: &memConditions{b}}
}

// Close closes the bucket. Nothing obtained from it can be used afterwards.
func (b *Bucket) Close() error { return b.blob.Close() }

// where is a key's name in messages.
func (b *Bucket) where(key string) string {
	if key == "" {
		return b.base
	}
	return b.base + "/" + key
}

// Stat describes the object with that key; Info.Key is name.
func (b *Bucket) Stat(ctx context.Context, key, name string) (object.Info, error) {
	attrs, err := b.blob.Attributes(ctx, key)
	if err != nil {
		return object.Info{}, bucketError(opLookingUp, b.where(key), err)
	}
	return objectInfo(name, attrs.Size, attrs.ModTime, attrs.ETag), nil
}

// Open reads the bytes [offset, offset+length) of an object, or all from offset on if length is
// negative, as object.Dir.Open does.
func (b *Bucket) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	where := b.where(key)
	if err := object.CheckRange(where, offset); err != nil {
		return nil, err
	}
	if length == 0 {
		// A range of zero bytes cannot be requested, but the object can be looked up.
		_, err := b.Stat(ctx, key, key)
		return nothing{}, err
	}
	r, err := b.blob.NewRangeReader(ctx, key, offset, length, nil)
	if err == nil {
		return &objectRange{ctx: ctx, bucket: b, key: key, offset: offset, left: length, r: r, size: r.Size(), modTime: r.ModTime(), last: time.Now()}, nil
	}
	if endsBefore(err) {
		return nothing{}, nil // the object ends before offset
	}
	return nil, bucketError(opReading, where, err)
}

// nothing is an empty object.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }
func (nothing) Close() error             { return nil }

// objectInfo makes a listing and a look-up describe an object in the same way.
func objectInfo(name string, size int64, modTime time.Time, etag string) object.Info {
	return object.Info{
		Key: name, Size: size, ModTime: modTime.UTC().Truncate(time.Second),
		ETag: strings.Trim(strings.TrimPrefix(etag, "W/"), `"`),
	}
}
