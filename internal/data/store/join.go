package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/store/object"
)

// bulkFrom is the size in bytes from which an object of known size is not worth a place in memory.
const bulkFrom = 64 << 20

// Piece is an object to be joined.
type Piece struct {
	Key    string
	Length int64  // in bytes, exact
	Sum    uint32 // CRC-32C (Castagnoli) of its content
}

// JoinOptions may be left zero.
type JoinOptions struct {
	// Size is the sum of the pieces' lengths in bytes, if the caller knows it: an upload to S3 is
	// cut into parts accordingly. Without it a joined object there can have up to 640 GB, and the
	// upload takes more memory. Default 0: not known.
	Size int64
	// Scratch is a local directory in which the unfinished file lies, if it is on the same file
	// system as the final one: what a killed process leaves there is easy to find. Default: beside
	// the final file.
	Scratch string
	// Encode encodes what is written: the pieces' lengths and checksums are those before, the result's those after.
	// Default: the bytes stay as they are.
	Encode func(io.Writer) Encoder
	// Begun is a Join of the same object that was begun earlier; the pieces follow those that it
	// has, and Join ends it in every case. Size and Scratch are ignored then. Default: none.
	Begun *Joining
	// Publish gets the finished file's description and calls commit, which makes it visible, at most
	// once; or it returns an error and the file is discarded. A caller wraps commit in Dir.Guard
	// here. Default: commit is called.
	Publish func(joined JoinResult, commit func() error) error
}

// Encoder encodes what is written to it, for instance compresses it.
type Encoder interface {
	io.Writer
	// EndPiece is called after each piece.
	EndPiece() error
	// Close writes what is left.
	Close() error
}

// JoinResult describes a joined file.
type JoinResult struct {
	Bytes int64
	Sum   uint32 // CRC-32C of the whole
}

// errNotPublished says that a Publish hook returned without an error and without a commit.
var errNotPublished = errors.New("it was not published")

// Join writes the concatenation of pieces of one Dir as an object of another, replacing what was
// there. Nothing is visible before everything is written, verified and synced; after an error
// nothing is left behind. It can be repeated. No pieces make an empty file.
//
// Every byte is checked on its way: a piece that is missing, of another length or of another
// checksum ends the Join with *CorruptError. An error of the pieces' sequence ends it with that
// error. The sequence is drawn from another goroutine than the caller's, while Join runs.
//
// Pieces are read, and their checksums computed, ahead of the writing and in parallel with it. On
// a local disk that is as fast as having the kernel copy (which would leave the checksums to a
// second reading of the same bytes), because the disk is the limit of both.
func Join(ctx context.Context, from Dir, pieces iter.Seq2[Piece, error], to Dir, name string, opts JoinOptions) (JoinResult, error) {
	j := opts.Begun
	if j == nil {
		var err error
		if j, err = BeginJoin(ctx, to, name, opts); err != nil {
			return JoinResult{}, err
		}
	}
	defer j.Abort()
	if err := j.Append(ctx, from, pieces); err != nil {
		return JoinResult{}, err
	}
	if err := ctx.Err(); err != nil {
		return JoinResult{}, err
	}
	if err := trap.Call("publishing a file", func() error { return j.publish(opts.Publish) }); err != nil {
		return JoinResult{}, object.Doing("publishing "+name, err)
	}
	return j.result, nil
}

// Joining is a Join whose first pieces are written before the others exist: JoinOptions.Begun ends
// it. It is not safe for concurrent use.
type Joining struct {
	name    string
	w       Writer
	encoder Encoder
	encoded encoded // zero if the bytes stay as they are
	open    int64   // bytes of the piece that is not complete
	result  JoinResult
}

// BeginJoin begins a Join. Nothing is visible until it has ended. The context covers its whole life. What is published
// replaces only what is there now: see object.WriteOptions.Unchanged.
func BeginJoin(ctx context.Context, to Dir, name string, opts JoinOptions) (*Joining, error) {
	j := &Joining{name: name}
	var err error
	j.w, err = object.CreateWith(ctx, to, name, object.WriteOptions{Bulk: true, Size: opts.Size, Scratch: opts.Scratch, Unchanged: true})
	j.encoder = unencoded{j.w}
	if err == nil && opts.Encode != nil {
		j.encoded.w = j.w
		j.encoder = opts.Encode(&j.encoded)
	}
	return j, err
}

// encoded counts and sums up what an Encoder writes.
type encoded struct {
	w      io.Writer
	result JoinResult
}

func (e *encoded) Write(p []byte) (int, error) {
	n, err := e.w.Write(p)
	e.result.Bytes += int64(n)
	e.result.Sum = crc32.Update(e.result.Sum, castagnoli, p[:n])
	return n, err
}

// unencoded is an Encoder of bytes that stay as they are.
type unencoded struct{ io.Writer }

func (unencoded) EndPiece() error { return nil }
func (unencoded) Close() error    { return nil }

// InScratch reports whether the unfinished file lies in the scratch directory.
func (j *Joining) InScratch() bool {
	w, ok := j.w.(interface{ InScratch() bool })
	return ok && w.InScratch()
}

// Abort ends the Join without a file and leaves nothing behind. It does nothing after another Abort, or once
// the file has been published.
func (j *Joining) Abort() { j.w.Abort() }

// Append writes pieces of one Dir. After an error only Abort can follow.
func (j *Joining) Append(ctx context.Context, from Dir, pieces iter.Seq2[Piece, error]) error {
	if err := j.copy(ctx, from, pieces); err != nil {
		return fmt.Errorf("joining %s: %w", j.name, err)
	}
	return nil
}

// AppendHeld writes a piece whose bytes the caller still has in memory, exactly as they were written
// to it: they are not checked against the piece's checksum. After an error only Abort can follow.
func (j *Joining) AppendHeld(piece Piece, held [][]byte) error {
	for _, data := range held {
		if err := j.Write(data); err != nil {
			return err
		}
	}
	return j.EndPiece(piece)
}

// Undoes reports whether Undo can be called.
func (j *Joining) Undoes() bool {
	_, ok := j.w.(object.Undoer)
	return ok && j.encoded.w == nil
}

// Mark marks the end of the last piece, for Undo.
func (j *Joining) Mark() {
	if j.Undoes() {
		j.w.(object.Undoer).Mark()
	}
}

// Write writes some of a piece that is not complete, from memory, as AppendHeld does. EndPiece or Undo follows.
func (j *Joining) Write(data []byte) error {
	if _, err := j.encoder.Write(data); err != nil {
		return fmt.Errorf("joining %s: %w", j.name, err)
	}
	j.open += int64(len(data))
	return nil
}

// EndPiece ends the piece that was written.
func (j *Joining) EndPiece(piece Piece) error {
	if err := j.encoder.EndPiece(); err != nil {
		return fmt.Errorf("joining %s: %w", j.name, err)
	}
	if j.open != piece.Length {
		return fmt.Errorf("joining %s: %w", j.name, &CorruptError{Key: piece.Key, Reason: fmt.Sprintf("has %d bytes in memory, not %d", j.open, piece.Length)})
	}
	j.result.Sum = combine(j.result.Sum, piece.Sum, j.open)
	j.result.Bytes += j.open
	j.open = 0
	return nil
}

// Undo takes back what was written of a piece since Mark.
func (j *Joining) Undo() error {
	j.open = 0
	if err := j.w.(object.Undoer).Undo(); err != nil {
		return fmt.Errorf("joining %s: %w", j.name, err)
	}
	return nil
}

func (j *Joining) copy(ctx context.Context, from Dir, pieces iter.Seq2[Piece, error]) error {
	ctx, cancel := context.WithCancel(ctx)
	r := startReading(ctx, from, pieces)
	defer r.group.Wait()
	defer cancel()
	var sum uint32 // of the piece so far
	for c := range r.chunks {
		<-c.read
		if c.err != nil {
			return c.err
		}
		if _, err := j.encoder.Write(c.data); err != nil {
			return err
		}
		n := int64(len(c.data))
		r.free <- c.buf
		sum = combine(sum, c.sum, n)
		if c.last {
			if sum != c.piece.Sum {
				return &CorruptError{Key: c.piece.Key, Reason: fmt.Sprintf("has the checksum %08x, not %08x", sum, c.piece.Sum)}
			}
			j.result.Sum = combine(j.result.Sum, sum, c.piece.Length)
			sum = 0
			if err := j.encoder.EndPiece(); err != nil {
				return err
			}
		}
		j.result.Bytes += n
	}
	return ctx.Err() // the reading may have ended early because of it
}

// publish syncs and commits the file.
func (j *Joining) publish(hook func(joined JoinResult, commit func() error) error) error {
	if err := j.encoder.Close(); err != nil {
		return err
	}
	if j.encoded.w != nil {
		j.result = j.encoded.result
	}
	if s, ok := j.w.(interface{ Sync() error }); ok {
		// Ahead of the hook, so that a lock held by it is held for a rename only.
		if err := s.Sync(); err != nil {
			return err
		}
	}
	if hook == nil {
		return j.w.Commit()
	}
	committed := errNotPublished
	if err := hook(j.result, func() error {
		committed = j.w.Commit()
		return committed
	}); err != nil {
		return err
	}
	return committed
}

// Settle brings an object that is written to the disk, and keeps nothing of its Writer but the name of the unfinished
// file, so that a thousand of them can wait for their Commit, which only renames them. It returns false, and has done
// nothing, for the Writer of a bucket: there Commit sends the object.
func Settle(w Writer) (bool, error) {
	s, ok := w.(interface{ Settle() error })
	if !ok {
		return false, nil
	}
	return true, s.Settle()
}

// CreateUnchanged is d.Create for an object that several runs may write: its Commit replaces only what is there now.
// See object.WriteOptions.
func CreateUnchanged(ctx context.Context, d Dir, key string) (Writer, error) {
	return object.CreateWith(ctx, d, key, object.WriteOptions{Unchanged: true})
}

// CreateSized is CreateUnchanged for an object of so many bytes. While it is unfinished it lies in the scratch
// directory, if that is not empty: see [JoinOptions].
func CreateSized(ctx context.Context, d Dir, key string, size int64, scratch string) (Writer, error) {
	return object.CreateWith(ctx, d, key, object.WriteOptions{Bulk: size > bulkFrom, Size: size, Scratch: scratch, Unchanged: true})
}

// Removal returns a function that deletes what is at key now, as Dir.Delete does. In a bucket with conditional writes
// it deletes nothing that is written there later.
func Removal(ctx context.Context, d Dir, key string) (remove func(context.Context) error, err error) {
	if r, ok := d.(interface {
		Removal(ctx context.Context, key string) (func(context.Context) error, error)
	}); ok {
		return r.Removal(ctx, key)
	}
	return func(ctx context.Context) error { return d.Delete(ctx, key) }, nil
}

// Conditional reports whether d keeps an object from being replaced that was written meanwhile: always if it is local,
// by its lock, and if the service behind a bucket has conditional writes. The first time for a bucket it writes an
// object beside key, to find out.
func Conditional(ctx context.Context, d Dir, key string) (bool, error) {
	c, ok := d.(interface {
		Conditional(ctx context.Context, key string) (bool, error)
	})
	if !ok {
		return true, nil
	}
	return c.Conditional(ctx, key)
}

// CreateBulk is d.Create for an object that will not be read soon: it does not displace other files
// from memory.
func CreateBulk(ctx context.Context, d Dir, key string) (Writer, error) {
	return object.CreateWith(ctx, d, key, object.WriteOptions{Bulk: true})
}
