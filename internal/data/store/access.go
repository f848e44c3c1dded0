package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/data/store/bucket"
	"github.com/stint-run/stint/internal/data/store/local"
	"github.com/stint-run/stint/internal/data/store/object"
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
		return local.OpenDir(location, p.path, admission{a})
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

// Extend makes an object have exactly content, of which its first at bytes are there already. Where objects can get
// longer in place only the rest is written, and whoever has the object open may see some of it.
func Extend(ctx context.Context, d Dir, key string, content []byte, at int) error {
	return object.Extend(ctx, d, key, content, at)
}

// Sink reports whether there is a device or a pipe in the place of an object of d: it is written into at the Commit,
// and can be neither read again nor replaced nor removed. The error says that it cannot be written into, or that
// something stands there that can be neither replaced nor written into.
func Sink(d Dir, key string) (bool, error) {
	if s, ok := d.(object.Sinker); ok {
		return s.Sink(key)
	}
	return false, nil
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
func (a *Access) bucket(ctx context.Context, p parsed) (*bucket.Bucket, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	url := p.url("") // as the driver takes it
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

// Input is one input object of a job.
type Input struct {
	// URL is an absolute path, its file URL if the path is not UTF-8, or a bucket URL; OpenInput and StatInput take it.
	URL string
	// Digest is that of its content or of a part of that, if whoever has made the Input knows one.
	Digest string
	Info
}

// StatInput describes the input at url, an absolute path or a bucket URL. The result is the Same as
// that of Expand, unless the input has changed.
func (a *Access) StatInput(ctx context.Context, url string) (Info, error) {
	p, err := parse(url)
	if err != nil {
		return Info{}, err
	}
	if !p.isLocal() {
		b, err := a.inputBucket(ctx, p, url)
		if err != nil {
			return Info{}, err
		}
		return b.Stat(ctx, p.key, path.Base(p.key))
	}
	resolved, err := a.admitPath(p.path)
	if err != nil {
		return Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	defer stall.Begin(ctx, "looking up", p.path).Close()
	info, err := os.Stat(resolved)
	if err != nil {
		return Info{}, local.Error("reading input", p.path, err)
	}
	if err := local.CheckRegular("reading input", p.path, info); err != nil {
		return Info{}, err
	}
	return local.Info(filepath.Base(p.path), info), nil
}

// inputBucket returns the bucket that an input lies in, if that may be read.
func (a *Access) inputBucket(ctx context.Context, p parsed, url string) (*bucket.Bucket, error) {
	if err := a.admitBucket(p, url, a.readable()); err != nil {
		return nil, err
	}
	if p.key == "" {
		return nil, badLocation(url, "it names a bucket, not an object")
	}
	return a.bucket(ctx, p)
}

// OpenInput reads the bytes [offset, offset+length) of the input at url, or all from offset on
// if length is negative, as Dir.Open does. The caller closes the reader; the context must live as
// long as the reader.
func (a *Access) OpenInput(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error) {
	p, err := parse(url)
	if err != nil {
		return nil, err
	}
	if !p.isLocal() {
		b, err := a.inputBucket(ctx, p, url)
		if err != nil {
			return nil, err
		}
		return b.Open(ctx, p.key, offset, length)
	}
	resolved, err := a.admitPath(p.path)
	if err != nil {
		return nil, err
	}
	r, err := local.Open(ctx, resolved, p.path, offset, length)
	if err != nil {
		return nil, err
	}
	if length < 0 || length > adviseAbove {
		r.Sequential()
	}
	return r, nil
}

// adviseAbove is the length in bytes above which reading further ahead is worth a system call.
const adviseAbove = 1 << 20

// DeniedError says that a location lies outside the roots that Access.Allow names. It is
// fs.ErrPermission.
type DeniedError struct {
	Location string   // as it was asked for
	Allow    []string // the roots
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s is outside what may be reached here (%s): move it there, or start the worker with --allow for its place",
		e.Location, strings.Join(e.Allow, ", "))
}

// Is makes the error fs.ErrPermission.
func (e *DeniedError) Is(target error) bool { return target == fs.ErrPermission }

// ProtectedError says that a location must not be written, replaced or removed, because of
// Access.Protect. It is fs.ErrPermission.
type ProtectedError struct {
	Location  string // as it was asked for
	Protected string // what would be changed
}

func (e *ProtectedError) Error() string {
	if e.Location == e.Protected {
		return fmt.Sprintf("%s belongs to the worker itself and is never written by a job: name another place", e.Location)
	}
	return fmt.Sprintf("%s would change %s, which belongs to the worker itself and is never written by a job: name another place", e.Location, e.Protected)
}

// Is makes the error fs.ErrPermission.
func (e *ProtectedError) Is(target error) bool { return target == fs.ErrPermission }

// Doing returns err as an error of doing something, unless it says that itself: see object.Doing.
func Doing(what string, err error) error { return object.Doing(what, err) }

// NoMatchError says that a pattern, directory or prefix that was given as input matches no objects.
type NoMatchError struct {
	Arg string // as the user wrote it
}

func (e *NoMatchError) Error() string {
	if IsPrefix(e.Arg) {
		return fmt.Sprintf("input %s holds no files (hidden ones do not count)", e.Arg)
	}
	return fmt.Sprintf("input %s matches no file (hidden ones do not count): check the pattern, and that the files lie where the worker runs", e.Arg)
}

// Permanent reports whether retrying cannot help and a person has to act: an input that matches
// nothing, and everything that object.Permanent names.
func Permanent(err error) bool {
	if _, ok := errors.AsType[*NoMatchError](err); ok && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	return object.Permanent(err)
}

// Full reports whether there is no space left.
func Full(err error) bool { return object.Full(err) }

// badLocation returns a *LocationError.
func badLocation(location, reason string) error {
	return &object.LocationError{Location: location, Reason: reason}
}
