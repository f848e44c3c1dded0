package bucket

import (
	"bufio"
	"context"
	"io/fs"
	"sync"

	"gocloud.dev/blob"

	"github.com/stint-run/stint/internal/data/store/object"
)

const (
	writeBuffer = 256 << 10
	contentType = "application/octet-stream"
)

var writeBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, writeBuffer) }}

// Create implements object.Dir.
func (d *Dir) Create(ctx context.Context, key string) (object.Writer, error) {
	return d.CreateWith(ctx, key, object.WriteOptions{})
}

// CreateWith implements object.Creator.
func (d *Dir) CreateWith(ctx context.Context, key string, o object.WriteOptions) (object.Writer, error) {
	if err := object.CheckKey(key); err != nil {
		return nil, err
	}
	options := &blob.WriterOptions{ContentType: contentType}
	tuneS3(d.bucket.blob, options, o)
	var want *state
	if o.Unchanged {
		var err error
		if want, err = d.unchanged(ctx, key); err != nil {
			return nil, err
		}
	}
	if want != nil {
		d.bucket.conditions.put(options, *want)
	}
	ctx, cancel := context.WithCancel(ctx)
	w, err := d.bucket.blob.NewWriter(ctx, d.prefix+key, options)
	if err != nil {
		cancel()
		return nil, bucketError("writing", d.where(key), err)
	}
	b := &writer{where: d.where(key), cancel: cancel, w: w, end: w.Close}
	if want != nil {
		giveUp := func() {
			cancel()
			_ = w.Close() // it fails, as intended
		}
		b.end = func() error { return d.bucket.conditions.commit(ctx, d.prefix+key, w, *want, giveUp) }
		b.replaced = func() error { return d.replaced(ctx, key, *want) }
	}
	b.buf = writeBuffers.Get().(*bufio.Writer)
	b.buf.Reset(w)
	return b, nil
}

// Put implements object.Dir.
func (d *Dir) Put(ctx context.Context, key string, data []byte) error {
	return object.Put(ctx, d, key, data)
}

// writer writes an object, which becomes visible in the bucket when the writer is closed, unless it
// was cancelled before.
type writer struct {
	where    string
	cancel   context.CancelFunc
	w        *blob.Writer
	end      func() error  // closes w
	replaced func() error  // why the service refuses a condition
	buf      *bufio.Writer // nil once the writer has ended
}

func (w *writer) Write(p []byte) (int, error) {
	if w.buf == nil {
		return 0, &object.OpError{Op: "writing", Where: w.where, Err: fs.ErrClosed}
	}
	n, err := w.buf.Write(p)
	return n, bucketError("writing", w.where, err)
}

func (w *writer) Commit() error {
	if w.buf == nil {
		return &object.OpError{Op: "writing", Where: w.where, Err: fs.ErrClosed}
	}
	if err := w.buf.Flush(); err != nil {
		w.Abort()
		return bucketError("writing", w.where, err)
	}
	w.release()
	defer w.cancel()
	err := w.end()
	if w.replaced != nil && refused(err) {
		return w.replaced()
	}
	return bucketError("writing", w.where, err)
}

func (w *writer) Abort() {
	if w.buf == nil {
		return
	}
	w.release()
	w.cancel()
	_ = w.w.Close() // it fails, as intended: the writer was cancelled
}

func (w *writer) release() {
	w.buf.Reset(nil)
	writeBuffers.Put(w.buf)
	w.buf = nil
}
