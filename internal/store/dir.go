package store

import (
	"context"
	"io"
	"iter"
	"time"
)

// Info describes an object.
type Info struct {
	// Key is the object's key in its Dir; for an input, the last element of its name.
	Key string
	// Size is in bytes.
	Size int64
	// ModTime is when the object was last written: to the nanosecond locally, to the second in a
	// bucket (some services list finer times than they give for a single object).
	ModTime time.Time
	// ETag changes with the content, without quotes; empty for local files.
	ETag string
}

// Same tells whether two descriptions of an input or object are of the same content as far as can
// be known: of the same size, and of the same ETag, or where there is none, time. (Some services
// give one object several times.)
func (i Info) Same(other Info) bool {
	if i.Size != other.Size || i.ETag != other.ETag {
		return false
	}
	return i.ETag != "" || i.ModTime.Equal(other.ModTime)
}

// Dir is a directory or bucket prefix. Keys are slash-separated relative paths without empty, "."
// or ".." elements; their last element is none of the reserved names (see the package's comment).
//
// A Dir is safe for concurrent use and holds nothing that must be closed. It stays valid until its
// Access is closed. For a missing object, errors.Is(err, fs.ErrNotExist) holds in every
// implementation; Permanent tells which errors no retry will mend.
type Dir interface {
	// Create begins an object. The caller must end the Writer with Commit or Abort; both may be
	// called, in either order. The context covers the Writer's whole life: once it is cancelled,
	// Commit fails. Missing directories are made. A bucket is not asked before the first bytes
	// are sent, so that its errors may come from Write or Commit.
	Create(ctx context.Context, key string) (Writer, error)
	// Put writes a whole object, as Create, Write and Commit do. It replaces what was there and
	// can be repeated.
	Put(ctx context.Context, key string, data []byte) error
	// Get reads a whole object into memory.
	Get(ctx context.Context, key string) ([]byte, error)
	// Open reads the bytes [offset, offset+length) of an object, or all from offset on where
	// length is negative. The reader ends early where the object does, and at once where the
	// object is not longer than offset. The caller closes it. The context must live as long as
	// the reader.
	Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// Stat describes one object.
	Stat(ctx context.Context, key string) (Info, error)
	// List yields every object whose key begins with prefix ("" for all), in the byte order of
	// the keys. Temporary files of unfinished writes and lock files are left out. Objects written
	// or deleted meanwhile may be seen or not. After an error nothing more is yielded. A Dir that
	// does not exist is empty.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Delete removes an object; a missing one is no error.
	Delete(ctx context.Context, key string) error
	// Guard runs fn if the object at key holds exactly want, and returns *FencedError if not.
	//
	// Locally the check and fn run under an exclusive lock on the file key+".lock", which Claim
	// takes as well, so that no Claim of any process can come between them (on a network file
	// system: where it passes locks on to other machines). In a bucket the lock excludes only
	// this process: another may Claim after the check and before fn is done, because no object
	// store can tie the writing of one object to the content of another. Callers keep fn short,
	// and let the run that claims publish after the claim, so that the last word is its own.
	//
	// fn must not call Guard or Claim for the same key.
	Guard(ctx context.Context, key, want string, fn func(context.Context) error) error
	// Claim sets the content of the object at key, under the lock that Guard holds. It can be
	// repeated.
	Claim(ctx context.Context, key, value string) error
	// Sweep removes every object whose key begins with prefix and for which keep returns false (a
	// nil keep keeps all), and what unfinished writes below prefix have left: temporary files,
	// uploads begun in an S3 bucket. A write still going on there fails at its Commit. Locally it
	// also removes directories and lock files that nothing needs any more. It returns how many
	// objects and remains it removed, also along with an error. It can be repeated. keep is
	// called by one goroutine at a time.
	Sweep(ctx context.Context, prefix string, keep func(key string) bool) (removed int, err error)
	// Location is the Dir's place as a person would write it; Open takes it.
	Location() string
	// Local returns the absolute path of a local directory, and whether the Dir is one.
	Local() (dir string, ok bool)
}

// Writer writes one object, of which nothing is visible under its key before Commit. It is
// buffered: many small writes are cheap. It is not safe for concurrent use.
type Writer interface {
	io.Writer
	// Commit makes the object durable and visible, replacing what was there. After an error
	// nothing is left behind, except that a fault at the very end (while a directory is synced,
	// or a bucket's answer gets lost) leaves open whether the object became visible. A Writer
	// can be committed once; a second Commit fails.
	Commit() error
	// Abort gives the object up and leaves nothing behind. It does nothing after Commit or
	// another Abort.
	Abort()
}

// writeOptions are what Join asks of a writer beyond Create.
type writeOptions struct {
	bulk bool  // large, written once and not read soon
	size int64 // how many bytes will be written, 0 where unknown
	// scratch is where the unfinished object may lie: see JoinOptions.
	scratch string
}

// creator is a Dir whose writers take options.
type creator interface {
	create(ctx context.Context, key string, o writeOptions) (Writer, error)
}

// CreateBulk is d.Create for an object that will not be read soon: it does not displace what is in
// memory.
func CreateBulk(ctx context.Context, d Dir, key string) (Writer, error) {
	if c, ok := d.(creator); ok {
		return c.create(ctx, key, writeOptions{bulk: true})
	}
	return d.Create(ctx, key)
}

// syncer is a Writer that can bring its bytes to the disk ahead of Commit.
type syncer interface {
	sync() error
}
