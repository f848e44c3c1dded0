package bucket

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"

	"github.com/stint-run/stint/internal/backoff"
	"github.com/stint-run/stint/internal/store/object"
)

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

func (o *objectRange) exhausted() bool {
	return o.tries >= resumes || time.Since(o.last) > resumeFor
}

// isRange reports whether an answer is that to a request for a range from offset on: some services ignore it.
func isRange(r *blob.Reader, offset int64) bool {
	var answer s3.GetObjectOutput
	return offset == 0 || !r.As(&answer) || answer.ContentRange != nil
}

// endsBefore reports whether a range was refused because the object ends before it.
func endsBefore(err error) bool {
	var api object.APIError
	return errors.As(err, &api) && api.ErrorCode() == "InvalidRange"
}

func (o *objectRange) Close() error {
	if o.r == nil {
		return nil
	}
	return bucketError(opReading, o.bucket.where(o.key), o.r.Close())
}
