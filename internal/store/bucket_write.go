package store

import (
	"bufio"
	"context"
	"io/fs"
	"sync"

	"gocloud.dev/blob"
)

const writeBuffer = 256 << 10

var writeBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, writeBuffer) }}

func (d *bucketDir) Create(ctx context.Context, key string) (Writer, error) {
	return d.create(ctx, key, writeOptions{})
}

func (d *bucketDir) create(ctx context.Context, key string, o writeOptions) (Writer, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w, err := d.bucket.NewWriter(ctx, d.prefix+key, d.writerOptions(o))
	if err != nil {
		cancel()
		return nil, bucketError("writing", d.where(key), err)
	}
	b := &bucketWriter{where: d.where(key), cancel: cancel, w: w}
	b.buf = writeBuffers.Get().(*bufio.Writer)
	b.buf.Reset(w)
	return b, nil
}

func (d *bucketDir) writerOptions(o writeOptions) *blob.WriterOptions {
	options := &blob.WriterOptions{ContentType: "application/octet-stream"}
	if d.place.scheme == schemeS3 {
		tuneS3(d.bucket, options, o)
	}
	return options
}

func (d *bucketDir) Put(ctx context.Context, key string, data []byte) error {
	w, err := d.Create(ctx, key)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Commit()
}

// bucketWriter writes an object, which a bucket shows once it is closed, unless it was cancelled
// before.
type bucketWriter struct {
	where  string
	cancel context.CancelFunc
	w      *blob.Writer
	buf    *bufio.Writer // nil once the writer has ended
}

func (w *bucketWriter) Write(p []byte) (int, error) {
	if w.buf == nil {
		return 0, &opError{op: "writing", where: w.where, err: fs.ErrClosed}
	}
	n, err := w.buf.Write(p)
	return n, bucketError("writing", w.where, err)
}

func (w *bucketWriter) Commit() error {
	if w.buf == nil {
		return &opError{op: "writing", where: w.where, err: fs.ErrClosed}
	}
	if err := w.buf.Flush(); err != nil {
		w.Abort()
		return bucketError("writing", w.where, err)
	}
	w.release()
	defer w.cancel()
	return bucketError("writing", w.where, w.w.Close())
}

func (w *bucketWriter) Abort() {
	if w.buf == nil {
		return
	}
	w.release()
	w.cancel()
	_ = w.w.Close() // fails, as it shall: the writer was cancelled
}

func (w *bucketWriter) release() {
	w.buf.Reset(nil)
	writeBuffers.Put(w.buf)
	w.buf = nil
}
