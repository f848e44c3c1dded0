package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/klauspost/compress/gzip"
)

// file is a file of an archive or a package.
type file struct {
	name string // with slashes, below the top
	mode fs.FileMode
	data []byte
}

// contents are the files of a program's archive: the program first.
func (r *release) contents(p *program, texts []file) ([]file, error) {
	data, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	files := []file{{p.kind.name, 0o755, data}}
	names := []string{"LICENSE", "README.md"}
	if p.kind.packaged {
		files = append(files, texts...)
		names = append(names, "CHANGELOG.md", "python/stint.py", "python/stint_client.py")
	}
	for _, name := range names {
		if data, err = r.read(name); err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, data})
	}
	return files, nil
}

// archive packs files into a folder of a tar.gz. Its name has no version, so that one address leads to the latest one.
func (r *release) archive(p *program, contents []file) made {
	m := made{name: p.base() + ".tar.gz"}
	top := p.kind.name + "-" + r.version + "-" + p.os + "-" + p.arch
	m.data, m.err = r.tarGz(top+"/", contents)
	return m
}

// tarGz packs files, and the folders that they are in.
func (r *release) tarGz(prefix string, files []file) ([]byte, error) {
	var b bytes.Buffer
	z, err := r.gzip(&b)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, dir := range folders(prefix, files) {
		header := tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: r.date, Uname: "root", Gname: "root", Format: tar.FormatGNU}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		header := tar.Header{Name: prefix + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: r.date, Uname: "root", Gname: "root", Format: tar.FormatGNU}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// gzip compresses as well as it can, and notes the release's date.
func (r *release) gzip(b *bytes.Buffer) (*gzip.Writer, error) {
	z, err := gzip.NewWriterLevel(b, gzip.BestCompression)
	if err == nil {
		z.ModTime = r.date
	}
	return z, err
}

// gzipped returns a text compressed.
func (r *release) gzipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := r.gzip(&b)
	if err != nil {
		return nil, err
	}
	_, err = z.Write(data)
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// folders are all that the files are in, from the top down.
func folders(prefix string, files []file) (dirs []string) {
	for _, f := range files {
		name := prefix + f.name
		for i, c := range name {
			if c == '/' {
				dirs = append(dirs, name[:i+1])
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
