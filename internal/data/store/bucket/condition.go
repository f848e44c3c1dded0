package bucket

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/stint-run/stint/internal/data/store/object"
)

// state is what must be at a key when something is written or deleted there: the object with that ETag, as the service
// wrote it, or nothing if it is empty.
type state struct {
	etag string
	// hidden: the service denies a look. To who may not list a bucket, S3 answers so if there is no such object.
	hidden bool
}

// conditions are a kind of bucket's way to act only if a key is in a state.
type conditions interface {
	// probe reports whether the service has conditional writes. It writes an object at key, and removes it.
	probe(ctx context.Context, key string) (bool, error)
	// put adds the condition to a write that begins.
	put(o *blob.WriterOptions, want state)
	// commit ends the write, which is seen afterwards. If it is refused before w is closed, giveUp leaves nothing of
	// it; a second Close would panic.
	commit(ctx context.Context, key string, w *blob.Writer, want state, giveUp func()) error
	// delete deletes an object, which is in the state want, or, if it is hidden, what there is.
	delete(ctx context.Context, key string, want state) error
}

// Conditional reports whether the service has conditional writes. It is asked once, with an object beside key.
func (d *Dir) Conditional(ctx context.Context, key string) (bool, error) {
	b := d.bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conditional != nil {
		return *b.conditional, nil
	}
	probe := d.prefix + path.Join(path.Dir(key), object.TempName(path.Base(key)))
	has, err := b.conditions.probe(ctx, probe)
	if err != nil {
		return false, bucketError("writing", b.where(probe), err)
	}
	b.conditional = &has
	return has, nil
}

// unchanged returns the state of a key, for a write that wants it to stay until then; nil if the service has no
// conditions.
func (d *Dir) unchanged(ctx context.Context, key string) (*state, error) {
	if has, err := d.Conditional(ctx, key); err != nil || !has {
		return nil, err
	}
	attrs, err := d.bucket.blob.Attributes(ctx, d.prefix+key)
	switch gcerrors.Code(err) {
	case gcerrors.OK:
		return &state{etag: attrs.ETag}, nil
	case gcerrors.NotFound:
		return &state{}, nil
	case gcerrors.PermissionDenied:
		return &state{hidden: true}, nil
	}
	return nil, bucketError(opLookingUp, d.where(key), err)
}

// replaced is the error of a write that was refused, because the key is not in the state want any more.
func (d *Dir) replaced(ctx context.Context, key string, want state) error {
	if want.hidden {
		if is, err := d.unchanged(ctx, key); err == nil && is != nil && is.hidden {
			return &object.OpError{Op: "writing", Where: d.where(key), Err: fs.ErrPermission, Text: "there is an object that may be neither looked at nor replaced",
				Next: "allow the worker s3:GetObject on it, or remove it"}
		}
	}
	return &object.ReplacedError{Op: "writing", Where: d.where(key)}
}

// Removal returns a function that deletes what is at key now: see store.Removal.
func (d *Dir) Removal(ctx context.Context, key string) (func(context.Context) error, error) {
	want, err := d.unchanged(ctx, key)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		switch {
		case want == nil:
			return d.Delete(ctx, key)
		case want.etag == "" && !want.hidden:
			return nil
		}
		err := d.bucket.conditions.delete(ctx, d.prefix+key, *want)
		if refused(err) {
			return &object.ReplacedError{Op: "deleting", Where: d.where(key)}
		}
		return bucketError("deleting", d.where(key), err)
	}, nil
}

// refused reports whether an error says that a condition did not hold: the object is another one, is gone, or is being
// written.
func refused(err error) bool {
	return hasCode(err, "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey") || errors.Is(err, errReplaced)
}

// s3Conditions has the service compare ETags.
type s3Conditions struct {
	name string
	blob *blob.Bucket
}

func (c *s3Conditions) probe(ctx context.Context, key string) (has bool, err error) {
	defer func() { _ = c.blob.Delete(context.WithoutCancel(ctx), key) }() // it is in nobody's way
	for _, try := range []struct {
		want    state
		refused bool
	}{{state{}, false}, {state{}, true}, {state{etag: neverETag}, true}} {
		options := &blob.WriterOptions{ContentType: contentType}
		c.put(options, try.want)
		w, err := c.blob.NewWriter(ctx, key, options)
		if err == nil {
			err = w.Close()
		}
		switch {
		case unknown(err):
			return false, nil
		case err != nil && !refused(err) || err != nil && !try.refused:
			return false, err
		case err == nil && try.refused:
			return false, nil // the condition was ignored
		}
	}
	return c.probeUpload(ctx, key)
}

// neverETag is that of no object.
const neverETag = `"00000000000000000000000000000000"`

// probeUpload reports whether the end of an upload in several parts can have a condition, too. There is an object at
// key.
func (c *s3Conditions) probeUpload(ctx context.Context, key string) (has bool, err error) {
	var client *s3.Client
	if !c.blob.As(&client) {
		return true, nil
	}
	bucket, name := aws.String(c.name), aws.String(key)
	const sum = types.ChecksumAlgorithmCrc32 // the client adds one to each part, which the other requests must know of
	begun, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: name, ChecksumAlgorithm: sum})
	if err != nil {
		return false, err
	}
	defer func() { // it does nothing after an end
		_, _ = client.AbortMultipartUpload(context.WithoutCancel(ctx), &s3.AbortMultipartUploadInput{Bucket: bucket, Key: name, UploadId: begun.UploadId})
	}()
	number := aws.Int32(1)
	part, err := client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: bucket, Key: name, UploadId: begun.UploadId, PartNumber: number, Body: strings.NewReader("probe"), ChecksumAlgorithm: sum,
	})
	if err != nil {
		return false, err
	}
	_, err = client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: bucket, Key: name, UploadId: begun.UploadId, IfMatch: aws.String(neverETag),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{ETag: part.ETag, PartNumber: number, ChecksumCRC32: part.ChecksumCRC32}}},
	})
	switch {
	case refused(err):
		return true, nil
	case err == nil, unknown(err), invalid(err):
		return false, nil
	}
	return false, err
}

// invalid reports whether a service has found a request wrong: asked again, it would say the same.
func invalid(err error) bool {
	response, ok := errors.AsType[*awshttp.ResponseError](err)
	return ok && response.HTTPStatusCode() == 400
}

// unknown reports whether an error says that the service does not know what was requested.
func unknown(err error) bool { return hasCode(err, "NotImplemented", "InvalidArgument") }

func (c *s3Conditions) put(o *blob.WriterOptions, want state) {
	before := o.BeforeWrite
	o.BeforeWrite = func(as func(any) bool) error {
		var input *transfermanager.UploadObjectInput
		if as(&input) && want.etag == "" {
			input.IfNoneMatch = aws.String("*")
		} else if input != nil {
			input.IfMatch = aws.String(want.etag)
		}
		if before == nil {
			return nil
		}
		return before(as)
	}
}

func (c *s3Conditions) commit(_ context.Context, _ string, w *blob.Writer, _ state, _ func()) error {
	return w.Close()
}

func (c *s3Conditions) delete(ctx context.Context, key string, want state) error {
	var client *s3.Client
	if !c.blob.As(&client) || strings.Contains(key, "../") {
		return c.blob.Delete(ctx, key) // package blob writes such keys otherwise
	}
	input := &s3.DeleteObjectInput{Bucket: aws.String(c.name), Key: aws.String(key)}
	if !want.hidden {
		input.IfMatch = aws.String(want.etag)
	}
	_, err := client.DeleteObject(ctx, input)
	if unknown(err) {
		return c.blob.Delete(ctx, key)
	}
	return err
}

// memConditions compares ETags itself, in the one process that a bucket in memory has.
type memConditions struct{ blob *blob.Bucket }

var memCommits sync.Mutex

func (c *memConditions) probe(context.Context, string) (bool, error) { return true, nil }

func (c *memConditions) put(*blob.WriterOptions, state) {}

func (c *memConditions) commit(ctx context.Context, key string, w *blob.Writer, want state, giveUp func()) error {
	memCommits.Lock()
	defer memCommits.Unlock()
	if err := c.check(ctx, key, want); err != nil {
		giveUp()
		return err
	}
	return w.Close()
}

func (c *memConditions) delete(ctx context.Context, key string, want state) error {
	memCommits.Lock()
	defer memCommits.Unlock()
	if err := c.check(ctx, key, want); err != nil {
		return err
	}
	return c.blob.Delete(ctx, key)
}

func (c *memConditions) check(ctx context.Context, key string, want state) error {
	var is state
	attrs, err := c.blob.Attributes(ctx, key)
	if err == nil {
		is.etag = attrs.ETag
	} else if gcerrors.Code(err) != gcerrors.NotFound {
		return err
	}
	if is != want {
		return errReplaced
	}
	return nil
}
