package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// bucketDir is a Dir in a bucket.
type bucketDir struct {
	bucket *blob.Bucket
	place  place  // its key is the prefix without the last slash
	prefix string // of every key: empty or ending in '/'
}

func (d *bucketDir) Location() string      { return d.place.url(d.place.key) }
func (d *bucketDir) Local() (string, bool) { return "", false }

func (d *bucketDir) where(key string) string { return d.place.object(d.prefix + key) }

func (d *bucketDir) Get(ctx context.Context, key string) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	data, err := d.bucket.ReadAll(ctx, d.prefix+key)
	if err != nil {
		return nil, bucketError("reading", d.where(key), err)
	}
	return data, nil
}

func (d *bucketDir) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	return openObject(ctx, d.bucket, d.prefix+key, d.where(key), offset, length)
}

func (d *bucketDir) Stat(ctx context.Context, key string) (Info, error) {
	if err := checkKey(key); err != nil {
		return Info{}, err
	}
	return statObject(ctx, d.bucket, d.prefix+key, key, d.where(key))
}

func (d *bucketDir) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return d.delete(ctx, key)
}

func (d *bucketDir) delete(ctx context.Context, key string) error {
	err := bucketError("deleting", d.where(key), d.bucket.Delete(ctx, d.prefix+key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *bucketDir) Guard(ctx context.Context, key, want string, fn func(context.Context) error) error {
	unlock, err := d.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	return guard(ctx, d, key, want, fn)
}

func (d *bucketDir) Claim(ctx context.Context, key, value string) error {
	unlock, err := d.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	return d.Put(ctx, key, []byte(value))
}

func (d *bucketDir) lock(ctx context.Context, key string) (unlock func(), err error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	unlock, err = bucketLocks.lock(ctx, d.where(key))
	if err != nil {
		return nil, fmt.Errorf("waiting for the lock of %s: %w", d.where(key), err)
	}
	return unlock, nil
}

// openObject opens part of an object of a bucket. where is its name in messages.
func openObject(ctx context.Context, b *blob.Bucket, key, where string, offset, length int64) (io.ReadCloser, error) {
	if err := checkRange(where, offset); err != nil {
		return nil, err
	}
	if length == 0 {
		// A range of no bytes cannot be asked for, but whether the object is there can.
		_, err := statObject(ctx, b, key, key, where)
		return nothing{}, err
	}
	r, err := b.NewRangeReader(ctx, key, offset, length, nil)
	if err == nil {
		return objectRange{r, where}, nil
	}
	var api apiError
	if errors.As(err, &api) && api.ErrorCode() == "InvalidRange" {
		return nothing{}, nil // the object ends before offset
	}
	return nil, bucketError("reading", where, err)
}

// objectRange gives errors on the way their names.
type objectRange struct {
	r     *blob.Reader
	where string
}

func (o objectRange) Read(p []byte) (int, error) {
	n, err := o.r.Read(p)
	if err != nil && err != io.EOF {
		err = bucketError("reading", o.where, err)
	}
	return n, err
}

func (o objectRange) Close() error { return bucketError("reading", o.where, o.r.Close()) }

// nothing is an empty object.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }
func (nothing) Close() error             { return nil }

func statObject(ctx context.Context, b *blob.Bucket, key, name, where string) (Info, error) {
	attrs, err := b.Attributes(ctx, key)
	if err != nil {
		return Info{}, bucketError("looking up", where, err)
	}
	return objectInfo(name, attrs.Size, attrs.ModTime, attrs.ETag), nil
}

// objectInfo makes what a listing says of an object equal to what a look-up says of it.
func objectInfo(name string, size int64, modTime time.Time, etag string) Info {
	return Info{
		Key: name, Size: size, ModTime: modTime.UTC().Truncate(time.Second),
		ETag: strings.Trim(strings.TrimPrefix(etag, "W/"), `"`),
	}
}

// bucketError wraps an error of package blob, which names request IDs and codes at length.
func bucketError(op, where string, err error) error {
	if err == nil {
		return nil
	}
	var api apiError
	known := errors.As(err, &api)
	switch code := gcerrors.Code(err); {
	case known && api.ErrorCode() == "NoSuchBucket":
		return &opError{op: op, where: where, err: err, text: "there is no such bucket",
			next: "make it, or check its name, region and endpoint"}
	case code == gcerrors.NotFound:
		return &opError{op: op, where: where, text: "there is no such object", err: fs.ErrNotExist}
	case code == gcerrors.PermissionDenied, known && deniedCodes[api.ErrorCode()]:
		text := "access is denied"
		if known && api.ErrorMessage() != "" {
			text += ": " + api.ErrorMessage()
		}
		return &opError{op: op, where: where, err: fs.ErrPermission, text: text,
			next: "check the credentials that the worker runs with, and what they may do"}
	case known:
		return &opError{op: op, where: where, err: err, text: api.ErrorCode() + ": " + api.ErrorMessage()}
	}
	// The driver's own error says the rest.
	if wrapped, ok := err.(interface{ Unwrap() []error }); ok && len(wrapped.Unwrap()) > 0 {
		err = wrapped.Unwrap()[0]
	}
	return &opError{op: op, where: where, err: err}
}

// deniedCodes are answers of S3 that mean a lack of permission besides AccessDenied.
var deniedCodes = map[string]bool{"InvalidAccessKeyId": true, "SignatureDoesNotMatch": true, "AllAccessDisabled": true}
