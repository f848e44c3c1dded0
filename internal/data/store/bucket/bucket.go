// Package bucket keeps objects in a bucket of an object store, behind gocloud.dev/blob.
package bucket

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/data/store/object"
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

// where returns a key's name in messages.
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
		return http.NoBody, err
	}
	r, err := b.blob.NewRangeReader(ctx, key, offset, length, nil)
	if err == nil {
		return &objectRange{ctx: ctx, bucket: b, key: key, offset: offset, left: length, r: r, size: r.Size(), modTime: r.ModTime(), last: time.Now()}, nil
	}
	if endsBefore(err) {
		return http.NoBody, nil // the object ends before offset
	}
	return nil, bucketError(opReading, where, err)
}

// objectInfo makes a listing and a look-up describe an object in the same way.
func objectInfo(name string, size int64, modTime time.Time, etag string) object.Info {
	return object.Info{
		Key: name, Size: size, ModTime: modTime.UTC().Truncate(time.Second),
		ETag: strings.Trim(strings.TrimPrefix(etag, "W/"), `"`),
	}
}

// What is done to an object that may be missing.
const opReading, opLookingUp = "reading", "looking up"

// bucketError wraps an error of package blob and leaves out its request IDs and codes.
func bucketError(op, where string, err error) error {
	if err == nil {
		return nil
	}
	var api object.APIError
	known := errors.As(err, &api)
	switch code := gcerrors.Code(err); {
	case known && api.ErrorCode() == "NoSuchBucket":
		return &object.OpError{Op: op, Where: where, Err: err, Text: "there is no such bucket",
			Next: "create it, or check its name, region and endpoint"}
	case code == gcerrors.NotFound:
		return &object.OpError{Op: op, Where: where, Text: "there is no such object", Err: fs.ErrNotExist}
	case code == gcerrors.PermissionDenied, known && deniedCodes[api.ErrorCode()]:
		text := "access is denied"
		if known && api.ErrorMessage() != "" {
			text += ": " + api.ErrorMessage()
		}
		next := "check the credentials that the worker runs with, and their permissions"
		if op == opReading || op == opLookingUp {
			next += "; S3 answers the same if there is no such object and the bucket may not be listed"
		}
		return &object.OpError{Op: op, Where: where, Err: fs.ErrPermission, Text: text, Next: next}
	case known:
		return &object.OpError{Op: op, Where: where, Err: err, Text: api.ErrorCode() + ": " + api.ErrorMessage()}
	}
	if sent, ok := errors.AsType[*url.Error](err); ok { // the layers above it say nothing of why there is no answer
		return &object.OpError{Op: op, Where: where, Err: err, Text: sent.Err.Error()}
	}
	// The driver's own error says enough.
	if wrapped, ok := err.(interface{ Unwrap() []error }); ok && len(wrapped.Unwrap()) > 0 {
		err = wrapped.Unwrap()[0]
	}
	return &object.OpError{Op: op, Where: where, Err: err}
}

// deniedCodes are the error codes of S3, besides AccessDenied, for a lack of permission.
var deniedCodes = map[string]bool{"InvalidAccessKeyId": true, "SignatureDoesNotMatch": true, "AllAccessDisabled": true}

const (
	// resumes is how often in a row reading goes on after a fault without a byte in between, and resumeFor about how
	// long; before the second time it waits for resumeDelay, before each further one twice as long.
	resumes     = 4
	resumeFor   = time.Minute
	resumeDelay = 200 * time.Millisecond
)

// objectRange reads a range of an object, and goes on from where it is after a fault that may pass: a connection
// that is dropped in the middle costs only itself.
type objectRange struct {
	ctx    context.Context
	bucket *Bucket
	key    string
	offset int64 // of the next byte
	left   int64 // bytes; negative: all

	r       *blob.Reader // nil after a fault
	size    int64        // of the object, as it was when it was opened
	modTime time.Time
	last    time.Time // that a byte was read
	tries   int       // in a row to go on since
	fault   error     // that was last met while reading
}

var errReplaced = errors.New("what is there now is not what was read before")

func (o *objectRange) Read(p []byte) (int, error) {
	for {
		if o.r == nil {
			if err := o.reopen(); err == io.EOF {
				return 0, err
			} else if err != nil {
				return 0, bucketError(opReading, o.bucket.where(o.key), err)
			}
		}
		n, err := o.r.Read(p)
		o.offset += int64(n)
		if o.left >= 0 {
			o.left -= int64(n)
		}
		if n > 0 {
			o.tries, o.last = 0, time.Now()
		}
		if err == nil || err == io.EOF {
			return n, err
		}
		fault := bucketError(opReading, o.bucket.where(o.key), err)
		if o.ctx.Err() != nil || object.Permanent(fault) || o.exhausted() {
			return n, fault
		}
		_ = o.r.Close() // only read from, and broken
		o.r, o.fault = nil, err
		if n > 0 {
			return n, nil
		}
	}
}

// reopen opens what is left of the range, as often as it may be tried.
func (o *objectRange) reopen() error {
	for {
		if o.left == 0 || o.offset >= o.size {
			return io.EOF
		}
		if o.tries++; o.tries > 1 && !backoff.Wait(backoff.Delay(resumeDelay, o.tries-1, time.Minute), o.ctx.Done()) {
			return o.ctx.Err()
		}
		r, err := o.bucket.blob.NewRangeReader(o.ctx, o.key, o.offset, o.left, nil)
		switch {
		case err == nil && r.Size() == o.size && r.ModTime().Equal(o.modTime) && isRange(r, o.offset):
			o.r = r
			return nil
		case err == nil:
			_ = r.Close() // only opened
			return errors.Join(o.fault, errReplaced)
		case endsBefore(err):
			return errors.Join(o.fault, errReplaced)
		case o.ctx.Err() != nil || o.exhausted() || object.Permanent(bucketError(opReading, o.key, err)):
			return err
		}
	}
}

func (o *objectRange) exhausted() bool { return o.tries >= resumes || time.Since(o.last) > resumeFor }

// isRange reports whether an answer is that to a request for a range from offset on: some services ignore it.
func isRange(r *blob.Reader, offset int64) bool {
	var answer s3.GetObjectOutput
	return offset == 0 || !r.As(&answer) || answer.ContentRange != nil
}

// hasCode reports whether an error is the service's, with one of the codes.
func hasCode(err error, codes ...string) bool {
	api, ok := errors.AsType[object.APIError](err)
	return ok && slices.Contains(codes, api.ErrorCode())
}

// endsBefore reports whether a range was refused because the object ends before it.
func endsBefore(err error) bool { return hasCode(err, "InvalidRange") }

func (o *objectRange) Close() error {
	if o.r == nil {
		return nil
	}
	return bucketError(opReading, o.bucket.where(o.key), o.r.Close())
}
