package store

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

const (
	writeBuffer = 256 << 10
	// partWindow is how much of a file is written before the disk is told to begin: Commit then
	// finds most of the work done. For a large file it is bulkWindow, and no more than bulkAhead
	// waits for the disk: however slow that is, the last sync is short, and memory does not fill
	// up with what the disk has yet to take.
	partWindow = 1 << 20
	bulkWindow = 4 << 20
	bulkAhead  = 64 << 20
	// makeTries bounds how often a file is tried again whose directory is missing.
	makeTries = 100
)

var writeBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, writeBuffer) }}

func (d *localDir) Create(ctx context.Context, key string) (Writer, error) {
	return d.create(ctx, key, writeOptions{})
}

func (d *localDir) create(ctx context.Context, key string, o writeOptions) (Writer, error) {
	path, err := d.writable(key)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, made, err := createTemp(path)
	if f == nil {
		return nil, fileError("writing", d.where(key), err)
	}
	w := newLocalWriter(ctx, f, path, d.where(key), o)
	w.made = made
	if err != nil {
		w.Abort()
		return nil, fileError("writing", d.where(key), err)
	}
	return w, nil
}

func (d *localDir) Put(ctx context.Context, key string, data []byte) error {
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

// createTemp opens a new file beside path, making missing directories, which it returns.
func createTemp(path string) (f *os.File, made []string, err error) {
	dir, name := filepath.Split(path)
	made, err = inDir(filepath.Clean(dir), func() error {
		f, err = os.OpenFile(filepath.Join(dir, tempName(name)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		return err
	})
	return f, made, err
}

// inDir has make put a file into a directory, and makes the directory, durably, where it is
// missing. It returns the directories made, the topmost first. Sweeps may remove directories that
// are still empty at any moment; hence the tries.
func inDir(dir string, make func() error) (made []string, err error) {
	for range makeTries {
		if err = make(); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		more, dirErr := makeDirs(dir)
		made = append(made, more...)
		if dirErr != nil && !errors.Is(dirErr, fs.ErrNotExist) {
			err = dirErr
			break
		}
	}
	if err != nil {
		removeDirs(made)
		return nil, err
	}
	for _, dir := range made {
		// A Sweep may have removed the file already, and then the directory: Commit will notice.
		if err := syncDir(filepath.Dir(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return made, err
		}
	}
	return made, nil
}

// makeDirs makes a directory and those above it and returns those that were missing, the topmost
// first.
func makeDirs(dir string) (made []string, err error) {
	var absent []string
	for {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			return nil, &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		if err == nil || dir == filepath.Dir(dir) {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		absent = append(absent, dir)
		dir = filepath.Dir(dir)
	}
	for i := len(absent) - 1; i >= 0; i-- {
		if err := os.Mkdir(absent[i], 0o777); err == nil {
			made = append(made, absent[i])
		} else if !errors.Is(err, fs.ErrExist) { // otherwise another was faster
			return made, err
		}
	}
	return made, nil
}

// removeDirs undoes makeDirs as far as nobody has put anything there.
func removeDirs(made []string) {
	for i := len(made) - 1; i >= 0; i-- {
		if os.Remove(made[i]) != nil {
			return
		}
	}
}

// localWriter writes a temporary file and renames it.
type localWriter struct {
	ctx   context.Context
	where string // the final name in messages
	path  string // the final name
	disk  pacer
	buf   *bufio.Writer // nil once the writer has ended
	made  []string      // directories made for it
	done  bool          // synced
}

func newLocalWriter(ctx context.Context, f *os.File, path, where string, o writeOptions) *localWriter {
	w := &localWriter{ctx: ctx, where: where, path: path, disk: pacer{f: f, bulk: o.bulk}}
	w.buf = writeBuffers.Get().(*bufio.Writer)
	w.buf.Reset(&w.disk)
	return w
}

func (w *localWriter) Write(p []byte) (int, error) {
	if w.buf == nil {
		return 0, fileError("writing", w.where, fs.ErrClosed)
	}
	w.done = false
	n, err := w.buf.Write(p)
	return n, fileError("writing", w.where, err)
}

// sync brings what was written so far to the disk.
func (w *localWriter) sync() error {
	if w.buf == nil {
		return fileError("writing", w.where, fs.ErrClosed)
	}
	if w.done {
		return nil
	}
	err := w.buf.Flush()
	if err == nil {
		err = w.disk.f.Sync()
	}
	w.done = err == nil
	return fileError("writing", w.where, err)
}

func (w *localWriter) Commit() error {
	if err := w.sync(); err != nil {
		w.Abort()
		return err
	}
	if err := w.ctx.Err(); err != nil {
		w.Abort()
		return err
	}
	temp := w.disk.f.Name()
	err := w.disk.f.Close()
	if err == nil {
		err = rename(temp, w.path)
	}
	if err != nil {
		w.Abort()
		return fileError("writing", w.where, err)
	}
	w.release()
	return fileError("writing", w.where, syncDir(filepath.Dir(w.path)))
}

func rename(temp, path string) error {
	err := os.Rename(temp, path)
	if errors.Is(err, fs.ErrNotExist) {
		// Not fs.ErrNotExist, which would say that the object is missing.
		return errors.New("its temporary file was removed by someone who cleared the store")
	}
	if err != nil {
		if info, statErr := os.Lstat(path); statErr == nil && info.IsDir() {
			return syscall.EISDIR
		}
	}
	return err
}

func (w *localWriter) Abort() {
	if w.buf == nil {
		return
	}
	w.release()
	_ = w.disk.f.Close() // is given up
	_ = os.Remove(w.disk.f.Name())
	removeDirs(w.made)
}

func (w *localWriter) release() {
	w.buf.Reset(nil)
	writeBuffers.Put(w.buf)
	w.buf = nil
}

// pacer writes to a file and has the disk begin early.
type pacer struct {
	f    *os.File
	bulk bool

	written int64 // bytes so far
	started int64 // up to where the disk has begun
	waited  int64 // up to where it is known to be done
}

var _ io.Writer = (*pacer)(nil)

func (p *pacer) Write(b []byte) (int, error) {
	n, err := p.f.Write(b)
	p.written += int64(n)
	if err != nil {
		return n, err
	}
	window := int64(partWindow)
	if p.bulk {
		window = bulkWindow
	}
	if p.written-p.started < window {
		return n, nil
	}
	startWriteback(p.f, p.started, p.written-p.started)
	p.started = p.written
	if done := p.started - bulkAhead; p.bulk && done > p.waited {
		if err := waitWriteback(p.f, p.waited, done-p.waited); err != nil {
			return n, err
		}
		p.waited = done
	}
	return n, nil
}
