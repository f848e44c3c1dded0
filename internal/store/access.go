package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/stall"
	"github.com/stint-run/stint/internal/store/bucket"
	"github.com/stint-run/stint/internal/store/local"
	"github.com/stint-run/stint/internal/store/object"
)

// Access opens stores and inputs, below the allowed roots only. The zero value is ready for use
// and reaches everything that the process's credentials reach. It is safe for concurrent use and
// must not be copied. Its fields must not change after the first use.
type Access struct {
	// Allow lists the roots below which locations must lie: absolute paths and bucket URLs. Empty
	// (nil or not): everything may be reached. Symbolic links are resolved before paths are
	// compared, on both sides. The query of a bucket URL must be the same as that of the
	// location, because it selects the service and the credentials.
	Allow []string
	// AllowRead lists further roots, below which inputs may be read, if Allow is not empty.
	AllowRead []string
	// Protect lists local files and directories that are never written, replaced or removed, whatever
	// Allow says, and neither is anything below them, nor a symbolic link on the way to them.
	Protect []string

	// Patience is how long nothing may move on a connection to a bucket before it is closed. Default 30 s.
	Patience time.Duration

	mu      sync.Mutex
	buckets map[string]*bucket.Bucket // by URL
	closed  bool
}

const defaultPatience = 30 * time.Second

// Open returns the directory or bucket prefix at location, a path relative to the working
// directory, an absolute path, or a URL (see the package's comment). A directory need not exist
// yet; the first write makes it. A bucket must, but it is not asked yet; for s3, only a region and
// credentials are looked for. Errors: *LocationError, *DeniedError, syscall.ENOTDIR if there is a
// file at a local path, fs.ErrPermission if there are no credentials.
func (a *Access) Open(ctx context.Context, location string) (Dir, error) {
	p, err := parse(location)
	if err != nil {
		return nil, err
	}
	if p.isLocal() {
		defer stall.Begin(ctx, "opening", location).Close()
		dir, err := local.OpenDir(location, p.path, admission{a})
		if err != nil {
			return nil, err // not a Dir that holds nil
		}
		return dir, nil
	}
	p.key = strings.Trim(p.key, "/")
	if err := a.admitBucket(p, location, a.Allow); err != nil {
		return nil, err
	}
	b, err := a.bucket(ctx, p)
	if err != nil {
		return nil, err
	}
	prefix := p.key
	if prefix != "" {
		prefix += "/"
	}
	return b.Dir(prefix, p.url(p.key)), nil
}

// Narrow returns the same Dir with writers that give local files no access rights other than perm; 0
// does not limit them. In a bucket it changes nothing.
func Narrow(d Dir, perm fs.FileMode) Dir {
	if n, ok := d.(interface{ Narrowed(fs.FileMode) Dir }); ok && perm != 0 {
		return n.Narrowed(perm)
	}
	return d
}

// Extend makes an object have exactly content, of which its first at bytes are there already. Where objects can get longer in place only the
// rest is written, and whoever has the object open may see some of it.
func Extend(ctx context.Context, d Dir, key string, content []byte, at int) error {
	return object.Extend(ctx, d, key, content, at)
}

// Sink reports whether there is a device or a pipe in the place of an object of d: it is written into at the Commit, and can be neither
// read again nor replaced nor removed. The error says that it cannot be written into, or that something stands there that can be
// neither replaced nor written into.
func Sink(d Dir, key string) (bool, error) { return object.Sink(d, key) }

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
func (a *Access) bucket(ctx context.Context, p place) (*bucket.Bucket, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	url := p.bucketURL()
	if a.closed {
		return nil, &object.OpError{Op: "opening", Where: url, Err: fs.ErrClosed}
	}
	if b := a.buckets[url]; b != nil {
		return b, nil
	}
	if p.scheme == schemeMem {
		if p.query != "" {
			return nil, &LocationError{Location: url, Reason: "mem buckets take no parameters: leave out ?" + p.query}
		}
		return bucket.Mem(p.bucket), nil // the process's, not closed with the Access
	}
	b, err := bucket.OpenS3(ctx, p.bucket, p.query, cmp.Or(a.Patience, defaultPatience))
	if err != nil {
		return nil, err
	}
	if a.buckets == nil {
		a.buckets = map[string]*bucket.Bucket{}
	}
	a.buckets[url] = b
	return b, nil
}
