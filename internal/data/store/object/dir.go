package object

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
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
	// Inode and Changed are the number of a local file, and when it was last changed in any way, if its system has
	// these. Another file of the same size and time shows by them; but the file of another machine, a copy, or one
	// whose rights were changed does as well.
	Inode   uint64
	Changed time.Time
	// Perm are the access rights of a local file, always with those of its owner to read and write it;
	// 0: unknown.
	Perm fs.FileMode
}

// Same reports whether two descriptions of an input or object are of the same content, as far as
// can be known: the same size and the same ETag, or the same time if there is no ETag. (Some
// services report different times for one object.)
func (i Info) Same(other Info) bool {
	if i.Size != other.Size || i.ETag != other.ETag {
		return false
	}
	return i.ETag != "" || i.ModTime.Equal(other.ModTime)
}

// Dir is a directory or bucket prefix. Keys are slash-separated relative paths without empty, "."
// or ".." elements; their last element must not be a reserved name (see the package's comment).
//
// A Dir is safe for concurrent use and holds nothing that must be closed. It stays valid until its
// Access is closed. For a missing object, errors.Is(err, fs.ErrNotExist) holds in every
// implementation; Permanent reports whether retrying cannot help.
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
	// Open reads the bytes [offset, offset+length) of an object, or all from offset on if
	// length is negative. The reader ends early if the object does, and at once if the object
	// is not longer than offset. The caller closes it. The context must live as long as the
	// reader.
	Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// Stat describes one object.
	Stat(ctx context.Context, key string) (Info, error)
	// List yields every object whose key begins with prefix ("" for all), in the byte order of
	// the keys. Temporary files of unfinished writes and lock files are left out. Objects written
	// or deleted meanwhile may be seen or not. After an error nothing more is yielded. A Dir that
	// does not exist is empty.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Delete removes an object; a missing one is not an error.
	Delete(ctx context.Context, key string) error
	// Guard runs fn if the object at key holds exactly want, and returns *FencedError if not.
	//
	// Locally the check and fn run under an exclusive lock on the file key+".lock", which Claim
	// takes as well, so that no Claim of any process can come between them (on a network file
	// system: if it passes locks on to other machines). In a bucket the lock excludes only this
	// process: another one may Claim between the check and the end of fn, because an object
	// store cannot make the write of one object depend on the content of another. So callers
	// begin what fn commits before they call Guard, with WriteOptions.Unchanged, and keep fn short.
	//
	// fn must not call Guard or Claim for the same key.
	Guard(ctx context.Context, key, want string, fn func(context.Context) error) error
	// Claim sets the content of the object at key, under the lock that Guard holds, unless
	// admit returns an error for what it holds now ("" if it is missing); Claim returns that error
	// then. A nil admit admits always. It can be repeated.
	//
	// In a bucket the lock excludes only this process. The write is conditional on what was read, so that no Claim
	// replaces another one that it has not seen. In a bucket without conditional writes (see Conditional) one that is
	// held up between the two can do that. Whoever finds that an older claim has replaced its own claims again.
	Claim(ctx context.Context, key, value string, admit func(held string) error) error
	// Sweep removes every object whose key begins with prefix and for which keep returns false (a
	// nil keep keeps all), and what unfinished writes below prefix have left: temporary files,
	// and uploads begun in an S3 bucket. A write that still runs there fails at its Commit. Locally
	// it also removes directories and lock files that are no longer needed. It returns how many
	// objects and leftovers it removed, even with an error. It can be repeated. keep is
	// called by one goroutine at a time, with the keys in their byte order.
	Sweep(ctx context.Context, prefix string, keep func(key string) bool) (removed int, err error)
	// Location returns the Dir's location as a person would write it; Access.Open takes it.
	Location() string
	// Local returns the absolute path of a local directory, and whether the Dir is one.
	Local() (dir string, ok bool)
}

// Writer writes one object, of which nothing is visible under its key before Commit. It is
// buffered: many small writes are cheap. It is not safe for concurrent use.
type Writer interface {
	io.Writer
	// Commit makes the object durable and visible, replacing what was there. After an error
	// nothing is left behind. One exception: after a fault at the very end (while a directory is
	// synced, or if a bucket's answer gets lost) the object may have become visible. A Writer
	// can be committed once; a second Commit fails.
	Commit() error
	// Abort discards the object and leaves nothing behind. It does nothing after Commit or
	// another Abort.
	Abort()
}

// Undoer is a Writer that can take back what was written last.
type Undoer interface {
	// Mark marks the place up to which the object is written.
	Mark()
	// Undo takes back what was written since the last Mark. It can be repeated. After an error only Abort can follow.
	Undo() error
}

// WriteOptions say more about a write than Create does. All may be left zero.
type WriteOptions struct {
	// Bulk: the object is large and will not be read soon, so it should not displace other
	// files from memory.
	Bulk bool
	// Size is how many bytes will be written; 0: not known.
	Size int64
	// Scratch is a local directory in which the unfinished object may lie, if that is on the
	// same file system as the object. Default: beside the object.
	Scratch string
	// Unchanged: Commit replaces only the object that is there when the Writer is created, or nothing if there is none,
	// and fails with *ReplacedError if another one has been written since, or if it has been removed. It has no effect
	// on local files, which have the lock of Guard, and in a bucket without conditional writes: see store.Conditional.
	Unchanged bool
}

// Creator is a Dir whose writers take options.
type Creator interface {
	CreateWith(ctx context.Context, key string, o WriteOptions) (Writer, error)
}

// Appender is a Dir whose objects can get longer in place.
type Appender interface {
	// Append makes data durable behind the first bytes of an object, which has at least as many, and replaces what
	// follows them. It can be repeated. A reader that has the object open sees the first bytes, and perhaps some of
	// data. After an error, or if the process is killed, some of data may be there. For an object that is missing or
	// shorter, errors.Is(err, fs.ErrNotExist) holds.
	Append(ctx context.Context, key string, at int64, data []byte) error
}

// Extend makes an object have exactly content, of which its first at bytes are there already: it writes the rest, if
// the Dir is an [Appender] and has the object, and otherwise all of it.
func Extend(ctx context.Context, d Dir, key string, content []byte, at int) error {
	if a, ok := d.(Appender); ok && at > 0 {
		if err := a.Append(ctx, key, int64(at), content[at:]); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return d.Put(ctx, key, content)
}

// Sinker is a Dir in which a device or a pipe can stand in the place of an object. It is a sink: what is written to the
// object goes into it, once, at the Commit, and it can be neither read again nor replaced nor removed.
type Sinker interface {
	// Sink reports whether there is a sink in the place of an object. The error says that it cannot be written into, or
	// that something stands there that can be neither replaced nor written into.
	Sink(key string) (bool, error)
}

// CreateWith is d.Create with options, which are only hints: a Dir that takes none ignores them.
func CreateWith(ctx context.Context, d Dir, key string, o WriteOptions) (Writer, error) {
	if c, ok := d.(Creator); ok {
		return c.CreateWith(ctx, key, o)
	}
	return d.Create(ctx, key)
}

// Put writes a whole object through d.Create: what Dir.Put does.
func Put(ctx context.Context, d Dir, key string, data []byte) error {
	w, err := CreateWith(ctx, d, key, WriteOptions{})
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Commit()
}

// Fence runs fn if the object at key holds exactly want: the part of Dir.Guard that the caller runs
// while it holds the lock.
func Fence(ctx context.Context, d Dir, key, want string, fn func(context.Context) error) error {
	have, err := d.Get(ctx, key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || string(have) != want {
		return &FencedError{Key: key, Want: want, Have: string(have)}
	}
	return fn(ctx)
}

// maxClaims bounds how often a Claim looks again, because another one has come between its look and its write.
const maxClaims = 10

// Claim returns what every kind of Dir does in its own Claim, under the lock.
func Claim(ctx context.Context, d Dir, key, value string, admit func(held string) error) error {
	for tries := 1; ; tries++ {
		err := claimOnce(ctx, d, key, value, admit)
		if replaced := new(ReplacedError); !errors.As(err, &replaced) || tries == maxClaims {
			return err
		}
	}
}

func claimOnce(ctx context.Context, d Dir, key, value string, admit func(held string) error) error {
	w, err := CreateWith(ctx, d, key, WriteOptions{Unchanged: true}) // before the look
	if err != nil {
		return err
	}
	defer w.Abort()
	if admit != nil {
		held, err := d.Get(ctx, key)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := admit(string(held)); err != nil {
			return err
		}
	}
	if _, err := w.Write([]byte(value)); err != nil {
		return err
	}
	return w.Commit()
}

const (
	// LockSuffix ends the name of a lock file. No key may have it.
	LockSuffix = ".lock"
	tempSuffix = ".tmp"
	// tokenLength gives 65 random bits: no two writers ever share a temporary name.
	tokenLength = 13
	// maxTempBase keeps temporary names within the 255 bytes that file systems allow.
	maxTempBase = 200
)

// CheckKey returns an error, which is fs.ErrInvalid, if key cannot name an object in every kind of
// Dir.
func CheckKey(key string) error {
	reason := ""
	switch {
	case key == "":
		reason = "is empty"
	case key == "." || !fs.ValidPath(key):
		reason = "is not a relative path of plain elements"
	case strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == '\\' }):
		reason = "has a control character or backslash"
	case Reserved(path.Base(key)):
		reason = "is reserved for locks and unfinished files"
	default:
		if _, err := filepath.Localize(key); err == nil {
			return nil
		}
		reason = "is not a valid file name on this system"
	}
	return fmt.Errorf("the key %q %s: %w", key, reason, fs.ErrInvalid)
}

// CheckPrefix is CheckKey for the beginning of keys, which may end in the middle of a name.
func CheckPrefix(prefix string) error {
	dir, _ := path.Split(prefix)
	if dir = strings.TrimSuffix(dir, "/"); prefix == "" || dir == "" && prefix[0] != '/' {
		return nil
	}
	if dir == "." || !fs.ValidPath(dir) || strings.Contains(prefix, `\`) {
		return fmt.Errorf("the prefix %q is not the beginning of a relative path of plain elements: %w", prefix, fs.ErrInvalid)
	}
	return nil
}

// Reserved reports whether a file name is that of a lock or of an unfinished write.
func Reserved(name string) bool {
	if strings.HasSuffix(name, LockSuffix) {
		return true
	}
	_, ok := TempOf(name)
	return ok
}

// TempName returns a new temporary name for the file name: ".name.token.tmp".
func TempName(name string) string {
	if len(name) > maxTempBase {
		name = name[:maxTempBase]
		for !utf8.ValidString(name) {
			name = name[:len(name)-1]
		}
	}
	return "." + name + "." + strings.ToLower(rand.Text()[:tokenLength]) + tempSuffix
}

// TempOf returns the file name that a temporary name was made for (its beginning, if it was very
// long), and whether it is a temporary name.
func TempOf(temp string) (name string, ok bool) {
	rest, ok := strings.CutSuffix(temp, tempSuffix)
	dot := len(rest) - tokenLength - 1
	if !ok || dot < 2 || rest[0] != '.' || rest[dot] != '.' {
		return "", false
	}
	for _, c := range []byte(rest[dot+1:]) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return "", false
		}
	}
	return rest[1:dot], true
}

// CheckRange returns an error, which is fs.ErrInvalid, if an object cannot be read from offset.
func CheckRange(where string, offset int64) error {
	if offset < 0 {
		return fmt.Errorf("reading %s from the negative offset %d: %w", where, offset, fs.ErrInvalid)
	}
	return nil
}
