package bucket

import (
	"context"
	"crypto/tls"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob" // the driver of s3://

	"github.com/stint-run/stint/internal/data/store/object"
)

const (
	// abortTimeout is how long the abort of an upload may take after its context has ended. An
	// upload left open is kept, and billed, until it is aborted.
	abortTimeout = 30 * time.Second
	// S3 allows at most 10,000 parts for one object; a quarter is kept in reserve for a size that grows.
	maxUploadParts = 7_500
	bulkPart       = 16 << 20
	// bulkPartUnknown allows 640 GB if the size is not known beforehand.
	bulkPartUnknown = 64 << 20
	bulkUploads     = 4 // parts that are uploaded at once
)

// OpenS3 opens a bucket of S3, or of a service with its interface. name is the bucket's and query,
// without a question mark, that of its URL. The bucket itself is not asked yet: only a region and
// credentials are looked for. Errors: *object.LocationError, and fs.ErrPermission if there are no
// credentials. Connections on which no byte moves for the time of patience, in either direction, while an answer is
// waited for, are closed.
func OpenS3(ctx context.Context, name, query string, patience time.Duration) (*Bucket, error) {
	base := "s3://" + name
	address := base
	if query != "" {
		address += "?" + query
	}
	b, err := dialS3(ctx, address, patience)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		reason := strings.TrimPrefix(err.Error(), "open bucket "+address+": ")
		return nil, &object.LocationError{Location: address, Reason: reason}
	}
	var client *s3.Client
	if b.As(&client) {
		err = checkS3(ctx, address, client.Options())
	}
	if err != nil {
		_ = b.Close() // nothing was done with it
		return nil, err
	}
	return &Bucket{name: name, base: base, blob: b, conditions: &s3Conditions{name: name, blob: b}}, nil
}

// dialS3 opens the bucket of a URL. Its client verifies the checksums of what it reads if the service
// sends them, and does not log it if the service sends none.
func dialS3(ctx context.Context, address string, patience time.Duration) (*blob.Bucket, error) {
	at, err := url.Parse(address)
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
	quiet := s3.New(client.Options(), func(o *s3.Options) {
		o.DisableLogOutputChecksumValidationSkipped = true
		if c, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
			o.HTTPClient = c.WithTransportOptions(func(t *http.Transport) { endStalled(t, patience) })
		}
	})
	_ = b.Close() // nothing was done with it
	return s3blob.OpenBucket(ctx, quiet, at.Host, &opener.Options)
}

// endStalled has connections end on which nothing moves. They are of HTTP/1, which carries one request at a time. On
// one of HTTP/2 the bytes of other requests would hide the one that hangs. (S3 itself speaks HTTP/1 only, and requests
// at once do not share the fate of a connection.)
func endStalled(t *http.Transport, patience time.Duration) {
	t.ForceAttemptHTTP2, t.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
	if t.TLSClientConfig != nil {
		t.TLSClientConfig.NextProtos = nil // or a copy of a transport that has spoken HTTP/2 goes on offering it
	}
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &impatientConn{c, patience}, nil
	}
}

// impatientConn fails if no byte moves for a time: a body that hangs in the middle is a connection that was dropped.
// What is written gives the answer to it a new time, for which the transport may wait already.
type impatientConn struct {
	net.Conn
	patience time.Duration
}

func (c *impatientConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.patience)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *impatientConn) Write(p []byte) (n int, err error) {
	for len(p) > 0 { // in pieces, of which each one is progress
		if err := c.SetDeadline(time.Now().Add(c.patience)); err != nil {
			return n, err
		}
		piece, err := c.Conn.Write(p[:min(len(p), 64<<10)])
		n, p = n+piece, p[piece:]
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// checkS3 checks early for what every request will need, so that the error can name what is missing.
func checkS3(ctx context.Context, address string, o s3.Options) error {
	if o.Region == "" {
		return &object.LocationError{Location: address, Reason: "no region given: add ?region=… or set AWS_REGION (any, such as us-east-1, for services that have none)"}
	}
	if o.Credentials == nil || aws.IsCredentialsProvider(o.Credentials, (*aws.AnonymousCredentials)(nil)) {
		return nil
	}
	_, err := o.Credentials.Retrieve(ctx) // kept for the requests
	if err == nil {
		return nil
	}
	failure := &object.OpError{Op: "opening", Where: address, Err: err, Text: "no usable credentials: " + err.Error(),
		Next: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile with AWS_PROFILE or ?profile=…, or add ?anonymous=true"}
	if ctx.Err() == nil && aws.IsCredentialsProvider(o.Credentials, (*ec2rolecreds.Provider)(nil)) {
		// The last in the chain: nothing is configured, and this is not a machine of EC2 with a role.
		failure.Err = fs.ErrPermission
	}
	return failure
}

// tuneS3 makes discarded uploads be aborted although their context has ended, and chooses the size
// of the parts of large uploads. It changes nothing for a bucket that is not of S3.
func tuneS3(b *blob.Bucket, options *blob.WriterOptions, o object.WriteOptions) {
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
			if o.Bulk {
				t.PartSizeBytes = partSize(o.Size)
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

// abortUploads aborts the unfinished uploads below prefix. If that is not allowed, or the service
// does not support it, nothing is done.
func (d *Dir) abortUploads(ctx context.Context, prefix string) (aborted int, err error) {
	var client *s3.Client
	if !d.bucket.blob.As(&client) {
		return 0, nil
	}
	pages := s3.NewListMultipartUploadsPaginator(client, &s3.ListMultipartUploadsInput{
		Bucket: aws.String(d.bucket.name), Prefix: aws.String(d.prefix + prefix),
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
				Bucket: aws.String(d.bucket.name), Key: upload.Key, UploadId: upload.UploadId,
			})
			if optional(err) {
				continue // or the upload has just ended
			}
			if err != nil {
				return aborted, bucketError("aborting an upload to", d.where(prefix), err)
			}
			aborted++
		}
	}
	return aborted, nil
}

func optional(err error) bool {
	return hasCode(err, "AccessDenied", "NotImplemented", "MethodNotAllowed", "NoSuchUpload")
}
