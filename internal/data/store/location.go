package store

import (
	"errors"
	"net/url"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"unicode/utf8"

	where "github.com/stint-run/stint/internal/base/location"
	"github.com/stint-run/stint/internal/data/store/local"
	"github.com/stint-run/stint/internal/data/store/object"
)

var (
	bucketPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	drivePattern  = regexp.MustCompile(`^/[A-Za-z]:`)
)

// The schemes that are linked. gs and azblob come in a later version.
const (
	schemeFile = "file"
	schemeMem  = "mem"
	schemeS3   = "s3"
)

// parsed is a location taken apart: a local path, or a key (or the beginning of keys) in a bucket.
type parsed struct {
	path string // as written; empty for a bucket

	scheme, bucket string
	key            string // without a leading slash; may be empty
	query          string // without the question mark
}

// parse takes a location apart. Its errors are *LocationError.
func parse(location string) (parsed, error) {
	switch {
	case location == "":
		return parsed{}, badLocation(location, "it is empty: name a path or a bucket URL")
	case strings.ContainsRune(location, 0):
		return parsed{}, badLocation(location, "it holds a NUL character")
	case !where.IsURL(location):
		return parsed{path: location}, nil
	}
	whole, query := where.SplitQuery(location)
	query = strings.TrimPrefix(query, "?")
	scheme, rest, _ := strings.Cut(whole, "://")
	switch scheme = strings.ToLower(scheme); scheme {
	case schemeFile:
		return parseFile(location, rest, query)
	case schemeMem, schemeS3:
	case "gs", "azblob":
		return parsed{}, badLocation(location, scheme+":// is not linked yet, a later version will bring it: use a path, file://, s3:// or mem://")
	default:
		return parsed{}, badLocation(location, "its scheme "+scheme+":// is unknown: linked are file://, s3:// and mem:// (gs:// and azblob:// come in a later version)")
	}
	bucket, key, _ := strings.Cut(rest, "/")
	if !bucketPattern.MatchString(bucket) {
		return parsed{}, badLocation(location, "the bucket's name is missing or not valid: write "+scheme+"://bucket/key")
	}
	for element := range strings.SplitSeq(key, "/") {
		if element == "." || element == ".." {
			return parsed{}, badLocation(location, `it has the element "`+element+`": write the key out in full`)
		}
	}
	return parsed{scheme: scheme, bucket: bucket, key: key, query: query}, nil
}

func parseFile(location, rest, query string) (parsed, error) {
	host, _, _ := strings.Cut(rest, "/")
	path := rest[len(host):]
	switch {
	case host != "" && host != "localhost" || path == "":
		return parsed{}, badLocation(location, "write file:/// and an absolute path")
	case query != "":
		return parsed{}, badLocation(location, "file URLs take no parameters: leave out ?"+query)
	}
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	if runtime.GOOS == "windows" && drivePattern.MatchString(path) {
		path = path[1:]
	}
	return parsed{path: filepath.FromSlash(path)}, nil
}

func (p parsed) isLocal() bool { return p.path != "" }

// object returns the URL of a key without the query, as messages show it.
func (p parsed) object(key string) string {
	if key == "" {
		return p.scheme + "://" + p.bucket
	}
	return p.scheme + "://" + p.bucket + "/" + key
}

// url returns the URL of a key such that parse finds the key again.
func (p parsed) url(key string) string {
	location := p.object(key)
	if p.query != "" {
		return location + "?" + p.query
	}
	if rest, _ := where.SplitQuery(location); rest != location {
		return location + "?" // an empty query keeps the key's question mark from being taken for one
	}
	return location
}

// IsPrefix reports whether a location names a place to put objects under and not one object: it
// ends in '/' (before the query, in a URL).
func IsPrefix(location string) bool { return where.IsPrefix(location) }

// Split separates the last element of a location from the Dir it lies in: "/a/b/out.jsonl" gives "/a/b" and
// "out.jsonl", "s3://bucket/x/out.jsonl?region=r" gives "s3://bucket/x?region=r" and "out.jsonl". A plain name lies in
// ".". The error is a *LocationError for a location that ends in '/', has no last element, or has one that no object
// can have.
func Split(location string) (dir, name string, err error) {
	if dir, name, err = SplitName(location); err != nil {
		return "", "", err
	}
	if err := object.CheckKey(name); err != nil {
		return "", "", badLocation(location, err.Error()+": choose another name")
	}
	return dir, name, nil
}

// SplitName is [Split] for what is only read: its last element may be any name.
func SplitName(location string) (dir, name string, err error) {
	p, err := parse(location)
	if err != nil {
		return "", "", err
	}
	if IsPrefix(location) {
		return "", "", badLocation(location, "it ends in '/': name a file")
	}
	if p.isLocal() {
		dir, name = filepath.Split(p.path)
		dir = filepath.Clean(dir)
	} else {
		i := strings.LastIndexByte(p.key, '/')
		dir, name = p.url(p.key[:max(i, 0)]), p.key[i+1:]
	}
	if name == "" {
		return "", "", badLocation(location, "it has no last element: name a file")
	}
	return dir, name, nil
}

// MakeAbsolute makes each location absolute, as [Absolute] does; "" and "-" stay as they are. The
// error joins those of all locations.
func MakeAbsolute(workingDir string, locations ...*string) error {
	var errs []error
	for _, location := range locations {
		if *location == "" || *location == "-" {
			continue
		}
		absolute, err := Absolute(*location, workingDir)
		*location = absolute
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Absolute makes a local path absolute, relative to workingDir, and clean, keeping a '/' at its
// end. URLs stay as they are, and a path that is not UTF-8 becomes one. The error is a *LocationError.
func Absolute(location, workingDir string) (string, error) {
	p, err := parse(location)
	if err != nil {
		return "", err
	}
	if where.IsURL(location) {
		return location, nil
	}
	clean := p.path
	if !filepath.IsAbs(clean) {
		if !filepath.IsAbs(workingDir) {
			return "", badLocation(location, "it is relative, and so is the directory "+workingDir+" that it starts from")
		}
		clean = filepath.Join(workingDir, clean)
	}
	clean = filepath.Clean(clean)
	if IsPrefix(location) && !IsPrefix(clean) {
		clean += string(filepath.Separator)
	}
	return textual(clean), nil
}

// textual returns a local path as a location that is a text: itself, or if it is not UTF-8 a URL, which keeps its bytes
// where only texts are kept.
func textual(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	return (&url.URL{Scheme: schemeFile, Path: filepath.ToSlash(path)}).String()
}

// Names returns every name by which what is at a location is found: writing to one of them replaces what is found. They
// are a file's path and each symbolic link on the way to it, each in a directory without symbolic links, and the path
// comes last; or the URL of an object without its query, because another one often leads to the same object. There is
// no '/' at the end of a name. A location that cannot be understood has none.
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

// Target returns the name that is replaced when something is written to a location: a symbolic link in the place of a
// file is replaced, and those on the way to it are followed. The name of a place for many objects is that of the
// directory. It is empty for a location that cannot be understood.
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
