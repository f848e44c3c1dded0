package local

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/backoff"
	"github.com/stint-run/stint/internal/store/object"
	"github.com/stint-run/stint/internal/trap"
)

const (
	// readerPoll is how often a named pipe that nobody reads is tried again.
	readerPoll = 20 * time.Millisecond
	// spoolBuffer is how many bytes for a sink are held in memory.
	spoolBuffer = 256 << 10
)

// sinkWriter writes into a device or a pipe. What it gets lies in a nameless file until Commit, which copies it: so the sink gets all of
// it once and in order, or nothing.
type sinkWriter struct {
	ctx   context.Context
	where string // in messages
	path  string
	place place

	spool *os.File // nil: nothing is kept, or the writer has ended
	out   *bufio.Writer
	ended bool
}

// createSink begins to write into the sink at a path.
func createSink(ctx context.Context, path, where string, at place, o object.WriteOptions) (*sinkWriter, error) {
	w := &sinkWriter{ctx: ctx, where: where, path: path, place: at, out: bufio.NewWriterSize(io.Discard, spoolBuffer)}
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
	if w.place.null || w.ctx.Err() != nil {
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
	if w.place.own >= 0 { // opened anew, a file would be written from its beginning, or beside what else goes there
		sink, err := duplicate(w.place.own, w.path)
		return sink, Error("writing", w.where, err)
	}
	for {
		sink, err := os.OpenFile(w.path, sinkFlags(w.place.pipe), 0)
		if err == nil || !w.place.pipe || !errors.Is(err, syscall.ENXIO) {
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
