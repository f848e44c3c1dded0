package store

import (
	"path/filepath"
	"strings"

	"github.com/stint-run/stint/internal/store/local"
)

// Names returns every name by which what is at a location is found: writing to one of them replaces what is found. They are
// a file's path and each symbolic link on the way to it, each in a directory without symbolic links, and the path comes last; or the
// URL of an object without its query, because another one often leads to the same object. There is no '/' at the end of a name. A
// location that cannot be understood has none.
//
// Two hard links to a file are two names: writing to one of them leaves the other as it is.
func Names(location string) []string {
	p, err := parse(location)
	switch {
	case err != nil:
		return nil
	case p.isLocal():
		return namesOf(p.path)
	}
	return []string{p.object(strings.TrimRight(p.key, "/"))}
}

// Target returns the name that is replaced when something is written to a location: a symbolic link in the place of a file is replaced,
// and those on the way to it are followed. The name of a place for many objects is that of the directory. It is empty
// for a location that cannot be understood.
func Target(location string) string {
	p, err := parse(location)
	if err != nil {
		return ""
	}
	if !p.isLocal() { // as Open takes it
		i := strings.LastIndexByte(p.key, '/')
		dir, name := strings.Trim(p.key[:max(i, 0)], "/"), p.key[i+1:]
		return p.object(strings.Trim(dir+"/"+name, "/"))
	}
	followed, name := p.path, ""
	if !IsPrefix(location) {
		followed, name = filepath.Dir(p.path), filepath.Base(p.path)
	}
	names := namesOf(followed)
	if len(names) == 0 {
		return ""
	}
	return filepath.Join(names[len(names)-1], name)
}

// LinkedSink returns the device or pipe that a local path, a symbolic link, leads to, and whether there is one.
func LinkedSink(location string) (target string, ok bool) {
	p, err := parse(location)
	if err != nil || !p.isLocal() || !local.IsLinkedSink(p.path) {
		return "", false
	}
	target, err = filepath.EvalSymlinks(p.path)
	return target, err == nil
}
