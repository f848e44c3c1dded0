package local

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/store/object"
)

const (
	// readerPoll is how often a named pipe that nobody reads is tried again.
	readerPoll = 20 * time.Millisecond
	// spoolBuffer is how many bytes for a sink are held in memory.
	spoolBuffer = 256 << 10
)

// sinkWriter writes into a device or a pipe. What it gets lies in a nameless file until Commit, which copies it: so the
// sink gets all of it once and in order, or nothing.
type sinkWriter struct {
	ctx    context.Context
	where  string // in messages
	path   string
	target target

	spool *os.File // nil: nothing is kept, or the writer has ended
	out   *bufio.Writer
	ended bool
}

// createSink begins to write into the sink at a path.
func createSink(ctx context.Context, path, where string, at target, o object.WriteOptions) (object.Writer, error) {
	w := &sinkWriter{ctx: ctx, where: where, path: path, target: at, out: bufio.NewWriterSize(io.Discard, spoolBuffer)}
	if at.null {
		return w, nil
	}
	name := object.TempName(filepath.Base(path))
	var err error
	if o.Scratch != "" {
		w.spool, err = os.OpenFile(filepath.Join(o.Scratch, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if w.spool == nil {
		w.spool, err = os.CreateTemp("", "stint-*"+name)
	}
	if err != nil {
		return nil, Error("writing", where, err)
	}
	hideOpen(w.spool.Name())
	w.out.Reset(w.spool)
	return w, nil
}

func (w *sinkWriter) Write(p []byte) (int, error) {
	if w.ended {
		return 0, Error("writing", w.where, fs.ErrClosed)
	}
	n, err := w.out.Write(p)
	return n, Error("writing", w.where, err)
}

// Settle does nothing: Commit sends what is kept.
func (w *sinkWriter) Settle() error { return nil }

// Commit copies what was written into the sink. For a pipe it waits until somebody reads, or the context ends.
func (w *sinkWriter) Commit() error {
	if w.ended {
		return Error("writing", w.where, fs.ErrClosed)
	}
	defer w.Abort()
	if err := w.out.Flush(); err != nil {
		return Error("writing", w.where, err)
	}
	if w.target.null || w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	if _, err := w.spool.Seek(0, io.SeekStart); err != nil {
		return Error("writing", w.where, err)
	}
	sink, err := w.open()
	if err != nil {
		return err
	}
	stop := trap.OnDone(w.ctx, "ending a write", nil, func() { _ = sink.SetWriteDeadline(time.Unix(1, 0)) }) // devices have none
	_, err = io.Copy(sink, struct{ io.Reader }{w.spool})
	stop()
	if closed := sink.Close(); err == nil {
		err = closed
	}
	switch {
	case w.ctx.Err() != nil && err != nil:
		return w.ctx.Err()
	case errors.Is(err, syscall.EPIPE):
		return &object.OpError{Op: "writing", Where: w.where, Err: fs.ErrInvalid,
			Text: "its reader ended before it had read everything", Next: "give the same command again with a new reader"}
	}
	return Error("writing", w.where, err)
}

// open opens the sink, and a pipe once somebody reads from it.
func (w *sinkWriter) open() (*os.File, error) {
	if w.target.own >= 0 { // opened anew, a file would be written from its beginning, or beside what else goes there
		sink, err := duplicate(w.target.own, w.path)
		return sink, Error("writing", w.where, err)
	}
	for {
		sink, err := os.OpenFile(w.path, sinkFlags(w.target.pipe), 0)
		if err == nil || !w.target.pipe || !errors.Is(err, syscall.ENXIO) {
			return sink, Error("writing", w.where, err)
		}
		if !backoff.Wait(readerPoll, w.ctx.Done()) {
			return nil, w.ctx.Err()
		}
	}
}

// Abort discards what was written.
func (w *sinkWriter) Abort() {
	if w.ended {
		return
	}
	w.ended = true
	if w.spool != nil {
		_ = w.spool.Close() // it is discarded
		_ = os.Remove(w.spool.Name())
	}
}

// target is what stands where an object is to be written, replaced or removed.
type target struct {
	// sink: a device or a pipe, which is written into. Nothing there is ever replaced or removed.
	sink bool
	// pipe: the sink is a named pipe, which waits for its reader.
	pipe bool
	// null: the sink is the device that throws everything away.
	null bool
	// own is the number of the file that this process has open there, or -1.
	own int
	// perm are the access rights of the file that is there, and all rights if there is none.
	perm fs.FileMode
}

// placeAt looks at what stands at a path. A link to a file, or to nothing, is replaced as a file is; a link to a device
// or a pipe is one. The error, which is permanent, says that there is something that can be neither replaced nor
// written into.
func targetAt(path, where string) (target, error) {
	info, err := os.Lstat(path)
	if err != nil { // nothing is there, or what comes next meets the reason
		return target{perm: fs.ModePerm, own: -1}, nil
	}
	linked := info.Mode()&fs.ModeSymlink != 0
	if linked {
		if info, err = os.Stat(path); err != nil {
			return target{perm: fs.ModePerm, own: -1}, nil
		}
	}
	switch mode := info.Mode(); {
	case linked && isDescriptor(path):
		return target{sink: true, own: ownDescriptor(path)}, nil
	case mode.IsRegular():
		return target{perm: mode.Perm(), own: -1}, nil
	case mode.IsDir():
		return target{perm: fs.ModePerm, own: -1}, nil
	case mode&fs.ModeNamedPipe != 0, mode&fs.ModeCharDevice != 0:
		return target{sink: true, pipe: mode&fs.ModeNamedPipe != 0, null: isNull(info), own: -1}, nil
	default:
		kind := "something that is no file"
		switch {
		case mode&fs.ModeSocket != 0:
			kind = "a socket"
		case mode&fs.ModeDevice != 0:
			kind = "a disk"
		}
		return target{}, &object.OpError{Op: "writing", Where: where, Err: fs.ErrInvalid,
			Text: kind + " stands there, which is neither replaced nor written into", Next: "name another place"}
	}
}

func isNull(info fs.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(null, info)
}

var descriptorPattern = regexp.MustCompile(`^/proc/(\d+)(?:/task/\d+)?/fd/(\d+)$`)

// maxDescriptorLinks bounds the links from a path to an open file: /dev/stdout, /dev/fd/1, /proc/self/fd/1.
const maxDescriptorLinks = 8

// descriptor returns the process and the number of the open file that a path, such as /dev/stdout, is a link to; ok is
// false if it is none.
func descriptor(path string) (pid, number int, ok bool) {
	for range maxDescriptorLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return 0, 0, false
		}
		path = filepath.Join(dir, filepath.Base(path))
		if found := descriptorPattern.FindStringSubmatch(path); found != nil {
			pid, errPID := strconv.Atoi(found[1])
			number, errNumber := strconv.Atoi(found[2])
			return pid, number, errPID == nil && errNumber == nil
		}
		target, err := os.Readlink(path)
		if err != nil {
			return 0, 0, false
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return 0, 0, false
}

// isDescriptor reports whether a path is a link to an open file of a process: that file is written into, whatever it
// is.
func isDescriptor(path string) bool {
	_, _, ok := descriptor(path)
	return ok
}

// ownDescriptor returns the number of the file of this process that a path is a link to, or -1.
func ownDescriptor(path string) int {
	if pid, number, ok := descriptor(path); ok && pid == os.Getpid() {
		return number
	}
	return -1
}

// Sink implements object.Sinker.
func (d *Dir) Sink(key string) (bool, error) {
	path, err := d.writable(context.Background(), key)
	if err != nil {
		return false, err
	}
	there, err := targetAt(path, d.where(key))
	if err != nil || !there.sink {
		return false, err
	}
	if path, err = d.followed(path, key); err != nil {
		return true, err
	}
	if err := mayWrite(path); err != nil {
		return true, Error("writing", d.where(key), err)
	}
	return true, nil
}

// followed returns the path of a sink that may be written into: where a link leads must be allowed, too. What a process
// has open may be, if the link to it is.
func (d *Dir) followed(path, key string) (string, error) {
	if isDescriptor(path) {
		return path, nil
	}
	path, err := d.admission.Existing(d.where(key))
	if errors.Is(err, fs.ErrNotExist) {
		return "", Error("writing", d.where(key), err)
	}
	return path, err
}

// IsLinkedSink reports whether a path is a symbolic link to a device or a pipe.
func IsLinkedSink(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return false
	}
	there, err := targetAt(path, path)
	return err == nil && there.sink
}
