package store

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob" // the driver of s3://
)

const (
	// abortTimeout is how long the abort of an upload may take after its context has ended. An
	// upload left open is kept, and billed, until it is aborted.
	abortTimeout = 30 * time.Second
	// S3 takes at most 10,000 parts for one object; a quarter is left for a size that grows.
	maxUploadParts = 7_500
	bulkPart       = 16 << 20
	// bulkPartUnknown allows 640 GB where the size is not known beforehand.
	bulkPartUnknown = 64 << 20
	bulkUploads     = 4 // parts on their way at once
)

func openS3(ctx context.Context, p place) (*blob.Bucket, error) {
	b, err := dialS3(ctx, p)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &LocationError{p.bucketURL(), "opening the bucket: " + err.Error()}
	}
	var client *s3.Client
	if b.As(&client) {
		err = checkS3(ctx, p, client.Options())
	}
	if err != nil {
		_ = b.Close() // nothing was done with it
		return nil, err
	}
	return b, nil
}

// dialS3 opens the bucket as its URL says, with a client that checks the checksums of what it reads
// where the service sends them, and does not log it where the service does not.
func dialS3(ctx context.Context, p place) (*blob.Bucket, error) {
	at, err := url.Parse(p.bucketURL())
	if err != nil {
		return nil, err
	}
	var opener s3blob.URLOpener // it keeps the options that the URL names
	b, err := opener.OpenBucketURL(ctx, at)
	if err != nil {
		return nil, err
	}
	var client *s3.Client
	if !b.As(&client) {
		return b, nil
	}
	quiet := s3.New(client.Options(), func(o *s3.Options) { o.DisableLogOutputChecksumValidationSkipped = true })
	_ = b.Close() // nothing was done with it
	return s3blob.OpenBucket(ctx, quiet, at.Host, &opener.Options)
}

// checkS3 looks at what every request will need, so that its lack shows early and by its name.
func checkS3(ctx context.Context, p place, o s3.Options) error {
	if o.Region == "" {
		return &LocationError{p.bucketURL(), "no region is known: add ?region=… or set AWS_REGION (any, such as us-east-1, for services that have none)"}
	}
	if o.Credentials == nil || aws.IsCredentialsProvider(o.Credentials, (*aws.AnonymousCredentials)(nil)) {
		return nil
	}
	_, err := o.Credentials.Retrieve(ctx) // kept for the requests
	if err == nil {
		return nil
	}
	failure := &opError{op: "opening", where: p.bucketURL(), err: err, text: "there are no usable credentials: " + err.Error(),
		next: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile with AWS_PROFILE or ?profile=…, or add ?anonymous=true"}
	if ctx.Err() == nil && aws.IsCredentialsProvider(o.Credentials, (*ec2rolecreds.Provider)(nil)) {
		// The last resort: nothing is configured, and this is no machine of EC2 with a role.
		failure.err = fs.ErrPermission
	}
	return failure
}

// tuneS3 has uploads that are given up aborted even though their context has ended, and fits the
// parts of large uploads to their size.
func tuneS3(b *blob.Bucket, options *blob.WriterOptions, o writeOptions) {
	var client *s3.Client
	if !b.As(&client) {
		return
	}
	options.BeforeWrite = func(as func(any) bool) error {
		var manager *transfermanager.Client
		if !as(&manager) {
			return nil // slower and less tidy, but it works
		}
		*manager = *transfermanager.New(client, func(t *transfermanager.Options) {
			t.RequestChecksumCalculation = client.Options().RequestChecksumCalculation
			t.FailTimeout = abortTimeout
			if o.bulk {
				t.PartSizeBytes = partSize(o.size)
				t.Concurrency = bulkUploads
			}
		})
		return nil
	}
}

func partSize(size int64) int64 {
	if size <= 0 {
		return bulkPartUnknown
	}
	return max(bulkPart, size/maxUploadParts+1)
}

// abortUploads ends the uploads below prefix that somebody has begun and not ended. Where that is
// not allowed, or the service does not know it, nothing is done.
func (d *bucketDir) abortUploads(ctx context.Context, prefix string) (aborted int, err error) {
	var client *s3.Client
	if !d.bucket.As(&client) {
		return 0, nil
	}
	pages := s3.NewListMultipartUploadsPaginator(client, &s3.ListMultipartUploadsInput{
		Bucket: aws.String(d.place.bucket), Prefix: aws.String(d.prefix + prefix),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if optional(err) {
			return aborted, nil
		}
		if err != nil {
			return aborted, bucketError("listing the uploads of", d.where(prefix), err)
		}
		for _, upload := range page.Uploads {
			_, err := client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
				Bucket: aws.String(d.place.bucket), Key: upload.Key, UploadId: upload.UploadId,
			})
			if optional(err) {
				continue // or it has just ended by itself
			}
			if err != nil {
				return aborted, bucketError("ending an upload to", d.where(prefix), err)
			}
			aborted++
		}
	}
	return aborted, nil
}

func optional(err error) bool {
	var api apiError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode() {
	case "AccessDenied", "NotImplemented", "MethodNotAllowed", "NoSuchUpload":
		return true
	}
	return false
}
