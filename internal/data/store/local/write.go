package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/data/store/object"
)

// makeTries is how often the making of a file whose directory is missing is retried.
const makeTries = 100

// Create implements object.Dir.
func (d *Dir) Create(ctx context.Context, key string) (object.Writer, error) {
	return d.CreateWith(ctx, key, object.WriteOptions{})
}

// CreateWith implements object.Creator.
func (d *Dir) CreateWith(ctx context.Context, key string, o object.WriteOptions) (object.Writer, error) {
	path, err := d.writable(ctx, key)
	if err != nil {
		return nil, err
	}
	there, err := targetAt(path, d.where(key))
	if err != nil {
		return nil, err
	}
	if there.sink {
		if path, err = d.followed(path, key); err != nil {
			return nil, err
		}
		return createSink(ctx, path, d.where(key), there, o)
	}
	creating := stall.Begin(ctx, "creating", d.where(key))
	f, made, err := createTemp(path, d.perm&there.perm, o)
	creating.Close()
	if f == nil {
		return nil, Error("writing", d.where(key), err)
	}
	w := newWriter(ctx, f, path, d.where(key), o)
	w.made = made
	w.moveTo(o.Scratch)
	if err != nil {
		w.Abort()
		return nil, Error("writing", d.where(key), err)
	}
	return w, nil
}

// Put implements object.Dir.
func (d *Dir) Put(ctx context.Context, key string, data []byte) error {
	return object.Put(ctx, d, key, data)
}

// createTemp opens a new file beside path, making missing directories, which it returns.
func createTemp(path string, perm fs.FileMode, o object.WriteOptions) (f *os.File, made []string, err error) {
	dir, name := filepath.Split(path)
	create := createCached
	if o.Bulk {
		create = createDirect
	}
	made, err = inDir(filepath.Clean(dir), func() error {
		f, err = create(filepath.Join(dir, object.TempName(name)), perm)
		return err
	})
	return f, made, err
}

func createCached(path string, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

// inDir calls make, which puts a file into a directory, and makes the directory, durably, if it is
// missing. It returns the directories made, the topmost first. Sweeps may remove directories that
// are still empty at any moment, which is why it tries again.
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
	for _, dir := range slices.Backward(absent) {
		if err := os.Mkdir(dir, 0o777); err == nil {
			made = append(made, dir)
		} else if !errors.Is(err, fs.ErrExist) { // otherwise somebody else made it first
			return made, err
		}
	}
	return made, nil
}

// removeDirs undoes makeDirs, except for directories in which somebody has put something.
func removeDirs(made []string) {
	for _, dir := range slices.Backward(made) {
		if os.Remove(dir) != nil {
			return
		}
	}
}

// writer writes a temporary file and renames it.
type writer struct {
	ctx   context.Context
	where string // the final name in messages
	path  string // the final name
	temp  string // the present name
	f     *os.File
	out   *ahead   // nil once the writer has ended
	made  []string // directories made for it

	op        *stall.Op
	marked    aheadMark
	scratched bool // whether it lies in the scratch directory
	settled   bool // whether the file is closed, and only to be renamed
}

func newWriter(ctx context.Context, f *os.File, path, where string, o object.WriteOptions) *writer {
	return &writer{
		ctx: ctx, where: where, path: path, temp: f.Name(), f: f, op: stall.New(ctx, "writing", where),
		out: &ahead{disk: pacer{f: f, bulk: o.Bulk, cached: !o.Bulk}},
	}
}

// moveTo puts the unfinished file into the scratch directory if it can be renamed from there. The
// file was made in its place, so that it has the group and access rights of files there.
func (w *writer) moveTo(scratch string) {
	if scratch == "" {
		return
	}
	there := filepath.Join(scratch, filepath.Base(w.temp))
	if os.Rename(w.temp, there) == nil {
		w.temp, w.scratched = there, true
	}
}

func (w *writer) InScratch() bool { return w.scratched }

func (w *writer) Write(p []byte) (int, error) {
	if w.out == nil || w.settled {
		return 0, Error("writing", w.where, fs.ErrClosed)
	}
	w.op.Begin()
	defer w.op.End()
	n, err := w.out.Write(p)
	return n, Error("writing", w.where, err)
}

// Mark implements object.Undoer.
func (w *writer) Mark() {
	if w.out != nil {
		w.marked = w.out.mark()
	}
}

// Undo implements object.Undoer.
func (w *writer) Undo() error {
	if w.out == nil || w.settled {
		return Error("writing", w.where, fs.ErrClosed)
	}
	w.op.Begin()
	defer w.op.End()
	return Error("writing", w.where, w.out.undo(w.marked))
}

// Sync brings everything that was written to the disk. Nothing is written after it.
func (w *writer) Sync() error {
	if w.out == nil {
		return Error("writing", w.where, fs.ErrClosed)
	}
	if w.settled {
		return nil
	}
	w.op.Begin()
	defer w.op.End()
	return Error("writing", w.where, w.out.sync())
}

// Settle brings everything that was written to the disk, and keeps no more than the unfinished file's name: Commit
// renames it.
func (w *writer) Settle() error {
	if err := w.Sync(); err != nil || w.settled {
		return err
	}
	w.out.end()
	w.settled = true
	return Error("writing", w.where, w.f.Close())
}

func (w *writer) Commit() error {
	if err := w.Sync(); err != nil {
		w.Abort()
		return err
	}
	if err := w.ctx.Err(); err != nil {
		w.Abort()
		return err
	}
	w.op.Begin()
	defer w.op.Close()
	var err error
	if !w.settled {
		err = w.f.Close()
	}
	if err == nil {
		err = rename(w.temp, w.path, w.where)
	}
	if err != nil {
		w.Abort()
		return Error("writing", w.where, err)
	}
	w.out.end()
	w.out = nil
	return Error("writing", w.where, syncDir(filepath.Dir(w.path)))
}

// rename puts the finished file into its place, unless something that is no file has come there meanwhile.
func rename(temp, path, where string) error {
	there, err := targetAt(path, where)
	if err != nil {
		return err
	}
	if there.sink {
		return errors.New("a device or a pipe has come into its place meanwhile")
	}
	err = os.Rename(temp, path)
	if errors.Is(err, fs.ErrNotExist) {
		// Not fs.ErrNotExist, which would mean that the object is missing.
		if _, statErr := os.Lstat(temp); statErr == nil {
			return errors.New("its directory was removed meanwhile")
		}
		return errors.New("its temporary file was removed by someone who cleared the store")
	}
	if err != nil {
		if info, statErr := os.Lstat(path); statErr == nil && info.IsDir() {
			return syscall.EISDIR
		}
	}
	return err
}

func (w *writer) Abort() {
	if w.out == nil {
		return
	}
	defer w.op.Close()
	w.out.end()
	w.out = nil
	_ = w.f.Close() // the file is discarded
	_ = os.Remove(w.temp)
	removeDirs(w.made)
}
