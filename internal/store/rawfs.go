package store

import (
	"io/fs"
	"os"
	"path/filepath"
)

// rawFS is [os.DirFS] for names of any bytes: that one refuses names that are not UTF-8.
type rawFS string

func (r rawFS) path(name string) string { return filepath.Join(string(r), filepath.FromSlash(name)) }

// Open implements fs.FS.
func (r rawFS) Open(name string) (fs.File, error) { return os.Open(r.path(name)) }

// ReadDir implements fs.ReadDirFS.
func (r rawFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(r.path(name)) }

// Stat implements fs.StatFS.
func (r rawFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(r.path(name)) }
