package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// makeTries bounds how often a file is tried again whose directory is missing.
const makeTries = 100

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
	f, made, err := createTemp(path, o)
	if f == nil {
		return nil, fileError("writing", d.where(key), err)
	}
	w := newLocalWriter(ctx, f, path, d.where(key), o)
	w.made = made
	w.moveTo(o.scratch)
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
func createTemp(path string, o writeOptions) (f *os.File, made []string, err error) {
	dir, name := filepath.Split(path)
	create := createCached
	if o.bulk {
		create = createDirect
	}
	made, err = inDir(filepath.Clean(dir), func() error {
		f, err = create(filepath.Join(dir, tempName(name)))
		return err
	})
	return f, made, err
}

func createCached(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
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
	temp  string // the present name
	f     *os.File
	out   *ahead   // nil once the writer has ended
	made  []string // directories made for it

	scratched bool // whether it lies in the scratch directory
}

func newLocalWriter(ctx context.Context, f *os.File, path, where string, o writeOptions) *localWriter {
	return &localWriter{
		ctx: ctx, where: where, path: path, temp: f.Name(), f: f,
		out: &ahead{disk: pacer{f: f, bulk: o.bulk, cached: !o.bulk}},
	}
}

// moveTo puts the unfinished file into the scratch directory, where it can come back from: it has
// been made in its place for the sake of group and access rules there.
func (w *localWriter) moveTo(scratch string) {
	if scratch == "" {
		return
	}
	there := filepath.Join(scratch, filepath.Base(w.temp))
	if os.Rename(w.temp, there) == nil {
		w.temp, w.scratched = there, true
	}
}

func (w *localWriter) inScratch() bool { return w.scratched }

func (w *localWriter) Write(p []byte) (int, error) {
	if w.out == nil {
		return 0, fileError("writing", w.where, fs.ErrClosed)
	}
	n, err := w.out.Write(p)
	return n, fileError("writing", w.where, err)
}

// sync brings all that was written to the disk. Nothing is written after it.
func (w *localWriter) sync() error {
	if w.out == nil {
		return fileError("writing", w.where, fs.ErrClosed)
	}
	return fileError("writing", w.where, w.out.sync())
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
	err := w.f.Close()
	if err == nil {
		err = rename(w.temp, w.path)
	}
	if err != nil {
		w.Abort()
		return fileError("writing", w.where, err)
	}
	w.out.end()
	w.out = nil
	return fileError("writing", w.where, syncDir(filepath.Dir(w.path)))
}

func rename(temp, path string) error {
	err := os.Rename(temp, path)
	if errors.Is(err, fs.ErrNotExist) {
		// Not fs.ErrNotExist, which would say that the object is missing.
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

func (w *localWriter) Abort() {
	if w.out == nil {
		return
	}
	w.out.end()
	w.out = nil
	_ = w.f.Close() // is given up
	_ = os.Remove(w.temp)
	removeDirs(w.made)
}
