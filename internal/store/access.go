package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
)

// Access opens stores and inputs, below the allowed roots only. The zero value is ready for use
// and reaches all that the process's credentials do. It is safe for concurrent use and must not
// be copied. Allow must not change after the first use.
type Access struct {
	// Allow lists the roots below which locations must lie: absolute paths and bucket URLs. Empty
	// (nil or not): everything may be reached. Symbolic links are resolved before paths are
	// compared, on both sides. The query of a bucket URL must be the same as that of the
	// location, because it decides which service is spoken to, and as whom.
	Allow []string

	mu      sync.Mutex
	buckets map[string]*blob.Bucket // by URL
	closed  bool
}

// Mem buckets outlive every Access: they are the process's.
var (
	memMu      sync.Mutex
	memBuckets = map[string]*blob.Bucket{}
)

// Open returns the directory or bucket prefix at location, a path relative to the working
// directory, an absolute path, or a URL (see the package's comment). A directory need not exist
// yet; the first write makes it. A bucket must, but is not asked yet; of s3, only a region and
// credentials are looked for. Errors: *LocationError, *DeniedError, syscall.ENOTDIR where a file
// stands at a local path, fs.ErrPermission where there are no credentials.
func (a *Access) Open(ctx context.Context, location string) (Dir, error) {
	p, err := parse(location)
	if err != nil {
		return nil, err
	}
	if p.isLocal() {
		return a.openLocal(location, p.path)
	}
	p.key = strings.Trim(p.key, "/")
	if err := a.admitBucket(p, location); err != nil {
		return nil, err
	}
	bucket, err := a.bucket(ctx, p)
	if err != nil {
		return nil, err
	}
	prefix := p.key
	if prefix != "" {
		prefix += "/"
	}
	return &bucketDir{bucket: bucket, place: p, prefix: prefix}, nil
}

func (a *Access) openLocal(location, path string) (Dir, error) {
	root, err := filepath.Abs(path)
	if err != nil {
		return nil, fileError("opening", location, err)
	}
	resolved, err := a.admitPath(root)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(resolved)
	switch {
	case err == nil && !info.IsDir():
		return nil, fileError("opening", location, syscall.ENOTDIR)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fileError("opening", location, err)
	}
	return &localDir{access: a, root: root}, nil
}

// Close closes the buckets that were opened. Everything obtained from the Access is unusable
// afterwards. It is idempotent.
func (a *Access) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	var errs []error
	for _, b := range a.buckets {
		errs = append(errs, b.Close())
	}
	clear(a.buckets)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing buckets: %w", err)
	}
	return nil
}

// bucket returns the bucket that p lies in, opened once per URL.
func (a *Access) bucket(ctx context.Context, p place) (*blob.Bucket, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	url := p.bucketURL()
	if a.closed {
		return nil, &opError{op: "opening", where: url, err: fs.ErrClosed}
	}
	if b := a.buckets[url]; b != nil {
		return b, nil
	}
	if p.scheme == schemeMem {
		return memBucket(p)
	}
	b, err := openS3(ctx, p)
	if err != nil {
		return nil, err
	}
	if a.buckets == nil {
		a.buckets = map[string]*blob.Bucket{}
	}
	a.buckets[url] = b
	return b, nil
}

func memBucket(p place) (*blob.Bucket, error) {
	if p.query != "" {
		return nil, &LocationError{p.bucketURL(), "mem buckets take no parameters: leave out ?" + p.query}
	}
	memMu.Lock()
	defer memMu.Unlock()
	b := memBuckets[p.bucket]
	if b == nil {
		b = memblob.OpenBucket(nil)
		memBuckets[p.bucket] = b
	}
	return b, nil
}
